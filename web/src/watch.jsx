// An episode with everything around it: world, machine, program, words, time.
import { useMemo, useState } from "preact/hooks";
import { EVENTS } from "./episode.js";
import { Graph } from "./graph.jsx";
import { IconButton } from "./icons.jsx";
import { KeysDialog, useKeys } from "./keys.jsx";
import { Programs } from "./program.jsx";
import { Rules } from "./rules.jsx";
import { modeVariable } from "./theme.js";
import { Timeline } from "./timeline.jsx";
import { Transport } from "./transport.jsx";
import { Numbers, World } from "./world.jsx";

const MOST_PULSES = 12; // actions a second above which transitions do not move

/** Props: `clock` with an episode; `actions`: more buttons beside the transport; `note`: on the start. */
export function Watch({ clock, actions, note }) {
  const episode = clock.episode.value;
  useKeys(clock);
  return (
    <div class="view" data-episode={episode.sent.start}>
      <div class="stage">
        <Scene clock={clock} episode={episode} note={note} />
        <MachinePanel clock={clock} episode={episode} />
        <ProgramPanel clock={clock} episode={episode} />
      </div>
      <Deck clock={clock} episodes={[episode]} actions={actions} />
    </div>
  );
}

/** Props: `clock`, `episode`, `tools` (instead of the seed), `note` (beside the seed). */
export function Scene({ clock, episode, tools, note }) {
  const t = Math.min(clock.t.value, episode.last);
  return (
    <div class="panel">
      <section class="part fills" aria-label="World">
        <header>
          <h2>{episode.sent.setting}</h2>
          {tools ?? (
            <span class="label">
              seed {episode.sent.seed}
              {note && `, ${note}`}
            </span>
          )}
        </header>
        <World episode={episode} t={t} />
      </section>
      <section class="part" aria-label="Numbers">
        <Numbers episode={episode} t={t} />
      </section>
    </div>
  );
}

function MachinePanel({ clock, episode }) {
  const t = Math.min(clock.t.value, episode.last);
  return (
    <div class="panel">
      <section class="part fills" aria-label="Machine">
        <header>
          <h2>Machine</h2>
          <span class="label">{episode.machine.kind}</span>
        </header>
        <MachineGraph clock={clock} episode={episode} t={t} />
      </section>
      <Rules clock={clock} episode={episode} t={t} />
    </div>
  );
}

/** The graph is drawn again when something in it changes, not with every action. */
function MachineGraph({ clock, episode, t }) {
  const taken = episode.transitionAt(t);
  const isCalm = !clock.isPlaying.value || clock.speed.value <= MOST_PULSES;
  const breaks = clock.edgeBreaks.value;
  const mode = episode.mode[t];
  const dependencies = [episode, episode.step[t], isCalm, breaks];
  return useMemo(
    () => (
      <Graph
        machine={episode.machine}
        mode={mode}
        taken={taken}
        pulse={isCalm ? taken?.step : null}
        shares={episode.probsAt(t)}
        breaks={breaks}
        onBreak={(from, to) => clock.toggleEdge(from, to)}
      />
    ),
    dependencies,
  );
}

export function ProgramPanel({ clock, episode }) {
  const t = Math.min(clock.t.value, episode.last);
  return (
    <div class="panel">
      <Programs clock={clock} episode={episode} t={t} />
      <Told clock={clock} episode={episode} t={t} />
    </div>
  );
}

/** The step in plain words. */
export function Told({ clock, episode, t }) {
  const words = episode.wordsAt(t);
  const { sent } = episode;
  const ending = t === episode.last && sent.ending;
  return (
    <section
      class="part told"
      aria-label="In words"
      aria-live={clock.isPlaying.value ? "off" : "polite"}
    >
      <p>
        <Words
          episode={episode}
          text={words ? words.what : `The start. ${sent.machine.headline}`}
        />
      </p>
      <p>
        <Words episode={episode} text={ending ? `Over: ${sent.ending}.` : words?.why} />
      </p>
    </section>
  );
}

/** A sentence in which names stand between backticks; those of modes get their colour. */
function Words({ episode, text = "" }) {
  return text.split("`").map((part, n) => {
    if (n % 2 === 0) return part;
    const mode = episode.machine.names.indexOf(part);
    return (
      <b
        key={n}
        class="mode-name"
        style={{ "--tone": mode < 0 ? "inherit" : modeVariable(mode, episode.modeCount) }}
      >
        {part}
      </b>
    );
  });
}

/** Props: `clock`, `episodes` (one or two), `span` (frames across, if not of each), `actions`. */
export function Deck({ clock, episodes, span, actions }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <footer class="deck">
      <Transport clock={clock}>
        {actions}
        <IconButton
          name="keys"
          label="Keys"
          class="button icon bare wordy"
          onClick={() => setOpen(true)}
        />
      </Transport>
      {episodes.map((episode, n) => (
        <Timeline
          key={n}
          clock={clock}
          episode={episode}
          span={span}
          caption={n ? "Time of the second" : "Time"}
        />
      ))}
      <Legend episodes={episodes} />
      <KeysDialog isOpen={isOpen} onClose={() => setOpen(false)} />
    </footer>
  );
}

/** What the colours of one timeline or two mean. */
function Legend({ episodes }) {
  const curves = new Map(episodes.flatMap(({ curves }) => curves.map((one) => [one.name, one])));
  const has = ({ key }) => episodes.some(({ marks }) => marks[key].length);
  return (
    <div class="legend" aria-hidden="true">
      {episodes.map(({ machine, modeCount }, n) => [
        episodes.length > 1 && <b>{n ? "right:" : "left:"}</b>,
        machine.names.map((name, k) => (
          <span key={`${n} ${k}`} style={{ "--tone": modeVariable(k, modeCount) }}>
            <i class="chip" />
            {name}
          </span>
        )),
      ])}
      {[...curves.values()].map(({ name, colour, dash }) => (
        <span key={name} style={{ "--tone": `var(--${colour})` }}>
          <i class={`stroke${dash ? " thin" : ""}`} />
          {name}
        </span>
      ))}
      {EVENTS.filter(has).map(({ key, name, colour }) => (
        <span key={key} style={{ "--tone": `var(--${colour})` }}>
          <i class="mark" />
          {name}
        </span>
      ))}
    </div>
  );
}
