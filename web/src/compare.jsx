// Two machines side by side on the same start, moved by one clock.
import { useKeys } from "./keys.jsx";
import { Deck, Scene, Told } from "./watch.jsx";

/** Props: `clock` with the first episode, `rival`: the second. */
export function Compare({ clock, rival }) {
  useKeys(clock);
  const episode = clock.episode.value;
  const longest = episode.last >= rival.last ? episode : rival;
  const isSame = episode.sent.start === rival.sent.start;
  return (
    <div class="view">
      {!isSame && <p class="error">The two do not begin in the same world.</p>}
      <div class="stage pair">
        {[episode, rival].map((one, n) => (
          <div class="panel" key={n}>
            <Scene clock={clock} episode={one} title={one.machine.headline} />
            <Told clock={clock} episode={one} t={Math.min(clock.t.value, one.last)} />
          </div>
        ))}
      </div>
      <Deck clock={clock} episodes={[episode, rival]} span={longest.last} />
    </div>
  );
}
