// The buttons below the world: play, step either way, jump; speed; where we are.
import { FASTEST, SLOWEST, positionOf, speedAt } from "./clock.js";
import { Icon, IconButton } from "./icons.jsx";

/** Props: `clock`; `children` stand at the right. */
export function Transport({ clock, children }) {
  const { t, last, isPlaying, stopped } = clock;
  const atStart = t.value === 0;
  const atEnd = t.value >= last.value;
  return (
    <div class="transport" role="group" aria-label="Playing">
      <IconButton
        name="first"
        label="To the start"
        keys="Home"
        onClick={() => clock.seek(0)}
        disabled={atStart}
      />
      <IconButton
        name="back"
        label="Step back"
        keys="←"
        onClick={() => clock.seek(t.peek() - 1)}
        disabled={atStart}
      />
      <button
        type="button"
        class="button main"
        aria-label={isPlaying.value ? "Pause" : "Play"}
        title={isPlaying.value ? "Pause (space)" : "Play (space)"}
        onClick={() => clock.toggle()}
      >
        <Icon name={isPlaying.value ? "pause" : "play"} />
      </button>
      <IconButton
        name="step"
        label="Step"
        keys="→"
        onClick={() => clock.seek(t.peek() + 1)}
        disabled={atEnd}
      />
      <IconButton
        name="mode"
        label="Next mode"
        keys="↓"
        onClick={() => clock.jump("nextMode")}
        disabled={atEnd}
      />
      <IconButton
        name="event"
        label="Next event"
        keys="E"
        onClick={() => clock.jump("nextEvent")}
        disabled={atEnd}
      />
      <IconButton
        name="end"
        label="Run to the end"
        keys="End"
        onClick={() => clock.runToEnd()}
        disabled={atEnd}
      />
      <span class="gap" />
      <Speed clock={clock} />
      <span class="spring" />
      <span class="stopped rare" role="status">
        {stopped.value}
      </span>
      <span class="place">
        <b data-t>{t.value}</b> of {last.value}
      </span>
      {children}
    </div>
  );
}

function Speed({ clock }) {
  const { speed } = clock;
  const said = `${speed.value} ${speed.value === 1 ? "action" : "actions"} a second`;
  return (
    <label class="speed">
      <span class="unseen">Speed</span>
      <input
        type="range"
        min={0}
        max={100}
        step={1}
        value={positionOf(speed.value)}
        aria-valuetext={said}
        onInput={(event) => (speed.value = speedAt(Number(event.currentTarget.value)))}
      />
      <output>{speed.value} / s</output>
    </label>
  );
}

/** Twice or half as fast. */
export function hurry(clock, factor) {
  const { speed } = clock;
  speed.value = Math.min(Math.max(Math.round(speed.value * factor), SLOWEST), FASTEST);
}
