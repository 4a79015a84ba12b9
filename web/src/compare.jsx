// Two machines side by side on the same start, moved by one clock.
import { useKeys } from "./keys.jsx";
import { Deck, Told } from "./watch.jsx";
import { Numbers, World } from "./world.jsx";

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
          <Contestant key={n} clock={clock} episode={one} />
        ))}
      </div>
      <Deck clock={clock} episodes={[episode, rival]} span={longest.last} />
    </div>
  );
}

function Contestant({ clock, episode }) {
  const t = Math.min(clock.t.value, episode.last);
  return (
    <div class="panel">
      <section class="part fills" aria-label={episode.machine.headline}>
        <header>
          <h2>{episode.machine.headline}</h2>
          <span class="label">{t < clock.t.value ? "over" : episode.modeName(t)}</span>
        </header>
        <div class="beside">
          <World episode={episode} t={t} />
          <Numbers episode={episode} t={t} />
        </div>
      </section>
      <Told clock={clock} episode={episode} t={t} />
    </div>
  );
}
