// What led to the mode that runs: the rules that were asked, the one that fired, or probabilities.
import { nameOf } from "./graph.jsx";
import { modeVariable } from "./theme.js";

/** Props: `clock`, `episode`, `t`. */
export function Rules({ clock, episode, t }) {
  const taken = episode.transitionAt(t) ?? { from: -1, to: null };
  const { machine, modeCount } = episode;
  const list = machine.lists[taken.from + 1] ?? [];
  const probs = episode.probsAt(t);
  const heading = taken.from < 0 ? "At the start" : `After ${nameOf(machine, taken.from)}`;
  const rows = Math.max(...machine.lists.map((rules) => rules.length)) || modeCount + 1;
  const fired = taken.to == null ? -1 : episode.rule[taken.step];
  return (
    <section class="part rules" aria-label="Rules" tabIndex={0} style={{ "--rows": rows }}>
      <header>
        <h2>{heading}</h2>
        <span class="label">
          {list.length ? "the first that holds" : probs ? "how likely" : ""}
        </span>
      </header>
      <ol>
        {list.length
          ? list.map((rule, n) => (
              <Rule
                key={n}
                {...{ clock, machine, from: taken.from, to: rule.to }}
                isFired={n === fired}
              >
                <code>{conditionOf(rule)}</code>
              </Rule>
            ))
          : Array.from({ length: modeCount + 1 }, (_, to) => (
              <Rule
                key={to}
                {...{ clock, machine, from: taken.from, to }}
                isFired={to === taken.to}
              >
                <Share value={probs?.[to] ?? 0} />
              </Rule>
            ))}
      </ol>
    </section>
  );
}

/** The text of a rule before its arrow. */
function conditionOf({ text }) {
  return text.replace(/\s*->.*$/, "");
}

function Rule({ clock, machine, from, to, isFired, children }) {
  const isBreak = clock.edgeBreaks.value.has(`${from}>${to}`);
  const name = nameOf(machine, to);
  return (
    <li
      class={`rule${isFired ? " fired" : ""}`}
      style={{ "--tone": modeVariable(to, machine.names.length) }}
      aria-current={isFired ? "true" : undefined}
    >
      <button
        type="button"
        class="dot"
        aria-pressed={isBreak}
        aria-label={`Stop when ${nameOf(machine, from)} is followed by ${name}`}
        onClick={() => clock.toggleEdge(from, to)}
      />
      {children}
      <span class="to">→ {name}</span>
    </li>
  );
}

function Share({ value }) {
  const percent = `${(100 * value).toFixed(1)} %`;
  return (
    <span class="chance">
      <span class="share">
        <i style={{ width: `${100 * value}%` }} />
      </span>
      <small>{percent}</small>
    </span>
  );
}
