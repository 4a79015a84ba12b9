// The programs of the modes: the line that acts is lit, loops show their rounds.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { modeVariable } from "./theme.js";

const MOST_ROUNDS = 255; // that are told apart

/** Props: `clock`, `episode`, `t`. */
export function Programs({ clock, episode, t }) {
  const { machine } = episode;
  const list = useRef(null);
  useLayoutEffect(() => {
    const item = list.current.querySelector("li.now") ?? list.current.querySelector("h3.running");
    if (item) keepInSight(list.current, item);
  }, [episode, episode.mode[t], episode.line[t]]);
  const programs = machine.end ? [...machine.modes, machine.end] : machine.modes;
  return (
    <section class="part fills" aria-label="Programs">
      <header>
        <h2>{programs.length > 1 ? "Programs" : "Program"}</h2>
        <span class="label">
          {t > 0 ? `macro step ${episode.step[t] + 1}` : "before the first mode"}
        </span>
      </header>
      <div class="program" ref={list} tabIndex={0} role="group" aria-label="Lines of the programs">
        {programs.map((program, mode) => (
          <ModeProgram key={mode} {...{ clock, episode, program, mode, t }} />
        ))}
      </div>
    </section>
  );
}

/** One program; it is drawn again when something in it changes, not with every action. */
function ModeProgram({ clock, episode, program, mode, t }) {
  const isRunning = episode.mode[t] === mode;
  const now = isRunning ? episode.line[t] : -1;
  const loops = isRunning ? episode.loopsAt(t) : [];
  const rounds = loops.map(({ line, round }) => `${line}:${round}`).join();
  const breaks = clock.lineBreaks.value;
  return useMemo(
    () => <Lines {...{ clock, episode, program, mode, isRunning, now, loops, breaks }} />,
    [episode, isRunning, now, rounds, breaks],
  );
}

function Lines({ clock, episode, program, mode, isRunning, now, loops, breaks }) {
  const running = isRunning ? "running" : undefined;
  const loopAt = (line) => loops.find((loop) => loop.line === line);
  return (
    <>
      <h3
        class={running}
        style={{ "--tone": modeVariable(mode, episode.modeCount) }}
        title={program.words}
      >
        <i class="chip" />
        {episode.titleOf(mode)}
      </h3>
      <ol class={running}>
        {program.lines.map((text, line) => (
          <Line
            key={line}
            {...{ clock, text, line, mode }}
            isNow={line === now}
            isBreak={breaks.has(`${mode}:${line}`)}
            loop={loopAt(line)}
          />
        ))}
      </ol>
    </>
  );
}

function Line({ clock, text, line, mode, isNow, isBreak, loop }) {
  const go = (event) => {
    const by = event.shiftKey ? -1 : 1;
    const found = clock.episode.peek().findLine(clock.t.peek(), by, mode, line);
    if (found != null) clock.seek(found);
  };
  const hint = "Go to its next execution; with Shift, to the previous one";
  return (
    <li class={isNow ? "now" : undefined} aria-current={isNow ? "step" : undefined}>
      <button
        type="button"
        class="dot"
        aria-pressed={isBreak}
        aria-label={`Stop at line ${line + 1}`}
        onClick={() => clock.toggleLine(mode, line)}
      />
      <span class="number" aria-hidden="true">
        {line + 1}
      </span>
      <button type="button" class="text" title={hint} onClick={go} data-line={line}>
        <Coloured text={text} />
      </button>
      {loop && loop.round > 0 && (
        <span class="counter">
          round {loop.round === MOST_ROUNDS ? `${MOST_ROUNDS} or later` : loop.round}
          {loop.count != null && ` of ${loop.count}`}
        </span>
      )}
    </li>
  );
}

/** A line with its keywords and brackets told apart. */
export function Coloured({ text }) {
  const indent = text.match(/^\s*/)[0];
  const words = text.trim().split(/\s+/);
  return [
    indent,
    ...words.flatMap((word, n) => {
      const kind = /^[A-Z]{2,}$|^not$/.test(word) ? "word" : /[()]$/.test(word) ? "sign" : null;
      return [n ? " " : "", kind ? <span class={kind}>{word}</span> : word];
    }),
  ];
}

/** Scroll a list, and nothing around it, until an item is well inside. */
function keepInSight(list, item) {
  const [top, bottom] = [
    item.offsetTop - list.offsetTop,
    item.offsetTop - list.offsetTop + item.offsetHeight,
  ];
  const margin = 2 * item.offsetHeight;
  if (top < list.scrollTop + margin) list.scrollTop = top - margin;
  else if (bottom > list.scrollTop + list.clientHeight - margin)
    list.scrollTop = bottom - list.clientHeight + margin;
}
