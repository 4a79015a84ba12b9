// Runs below the root, grouped by everything but the seed: their curves, live, and their machines.
import { useEffect, useState } from "preact/hooks";
import { get } from "./api.js";
import { Chart } from "./chart.jsx";
import { EmbeddingMap } from "./map.jsx";
import { ask } from "./state.js";

const AGAIN = 3000; // milliseconds between two looks at what may have changed

export default function Runs() {
  const [groups, setGroups] = useState(null);
  const [embeddings, setEmbeddings] = useState([]);
  const [shown, setShown] = useState(null); // {group} or {embedding}
  const [error, setError] = useState(null);
  useEffect(() => {
    get("embeddings").then((sent) => setEmbeddings(sent.embeddings), setError);
    return repeat(async () => setGroups(await get("runs")), setError);
  }, []);
  const listed = toldApart(groups?.groups ?? []);
  const group = listed.find(({ key }) => key === shown?.group) ?? (shown ? null : listed[0]);
  return (
    <div class="view">
      {error && (
        <p class="error" role="alert">
          {error.message}
        </p>
      )}
      <div class="runs">
        <nav aria-label="Runs">
          <h2>Runs{groups?.root ? ` below ${groups.root}/` : ""}</h2>
          {groups && !groups.groups.length && <Nothing root={groups.root} />}
          {listed.map((one) => (
            <GroupButton
              key={one.key}
              group={one}
              isShown={one === group}
              onClick={() => setShown({ group: one.key })}
            />
          ))}
          {embeddings.length > 0 && <h2>Embeddings</h2>}
          {embeddings.map(({ name }) => (
            <button
              key={name}
              type="button"
              class="group"
              aria-current={shown?.embedding === name}
              onClick={() => setShown({ embedding: name })}
            >
              <b>{name}</b>
            </button>
          ))}
        </nav>
        <div>
          {shown?.embedding && <EmbeddingMap name={shown.embedding} />}
          {group && <Group key={group.key} group={group} />}
        </div>
      </div>
    </div>
  );
}

/** Groups with what tells each from others of its name: the settings in which they differ. */
function toldApart(groups) {
  return groups.map((group) => {
    const own = flattened(group.settings);
    const namesakes = groups.filter(({ name }) => name === group.name);
    const tables = namesakes.map(({ settings }) => new Map(flattened(settings)));
    const apart = own.filter(([name, value]) => tables.some((table) => table.get(name) !== value));
    return { ...group, apart, key: JSON.stringify([group.name, group.tasks, own]) };
  });
}

function Nothing({ root }) {
  return (
    <p class="label">
      {root ? "No runs there yet." : "Start with pomp studio --run FOLDER to see runs."}
    </p>
  );
}

function GroupButton({ group, isShown, onClick }) {
  const live = group.runs.filter(({ is_finished }) => !is_finished).length;
  const count = group.runs.length;
  return (
    <button type="button" class="group" aria-current={isShown} onClick={onClick}>
      <b>{group.name}</b>
      {group.apart.length > 0 && (
        <small>{group.apart.map(([name, value]) => `${name} ${value}`).join(", ")}</small>
      )}
      <small>
        {count} {count === 1 ? "run" : "runs"}
        {live > 0 && `, ${live} not finished`}
      </small>
    </button>
  );
}

function Group({ group }) {
  const paths = group.runs.map(({ path }) => path);
  const { charts, error } = useCharts(paths);
  const machines = group.runs.flatMap((run) => run.machines);
  const open = ({ name, task }) =>
    ask({ view: "watch", machine: name, task, world: null, size: "", scale: "1", other: "" });
  return (
    <section aria-label={group.name}>
      <Facts group={group} />
      {machines.length > 0 && (
        <>
          <h2>Machines</h2>
          <div class="found">
            {machines.map((machine) => (
              <button key={machine.name} type="button" class="button" onClick={() => open(machine)}>
                {machine.task}
                {machine.seed != null && `, seed ${machine.seed}`}
              </button>
            ))}
          </div>
        </>
      )}
      {error && <p class="error">{error.message}</p>}
      {charts?.length === 0 && (
        <p class="label">Nothing to draw yet: curves begin with the first results.</p>
      )}
      <div class="charts">
        {charts?.map((chart, n) => (
          <Chart key={`${chart.what} ${n}`} chart={chart} />
        ))}
      </div>
    </section>
  );
}

function Facts({ group }) {
  const live = group.runs.filter(({ is_finished }) => !is_finished).length;
  return (
    <>
      <dl class="facts">
        <Fact name="tasks">{group.tasks.join(", ")}</Fact>
        <Fact name="runs">{group.runs.length}</Fact>
        <Fact name="not finished">{live}</Fact>
        <Fact name="changed">
          {new Date(1000 * Math.max(...group.runs.map((run) => run.changed))).toLocaleString()}
        </Fact>
      </dl>
      <details>
        <summary>Settings</summary>
        <dl class="facts">
          {flattened(group.settings).map(([name, value]) => (
            <Fact key={name} name={name}>
              {value}
            </Fact>
          ))}
        </dl>
      </details>
    </>
  );
}

function Fact({ name, children }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Settings within settings as one list of names with dots and texts. */
function flattened(settings, before = "") {
  return Object.entries(settings).flatMap(([name, value]) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? flattened(value, `${before}${name}.`)
      : [[before + name, Array.isArray(value) ? value.join(", ") : String(value)]],
  );
}

/** The curves of runs, asked for again while the component is there. */
function useCharts(paths) {
  const [charts, setCharts] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let since = null;
    const look = async () => {
      const sent = await get("charts", { run: paths, since });
      if (!sent) return;
      since = sent.changed;
      setCharts(sent.charts);
      setError(null);
    };
    return repeat(look, setError);
  }, [paths.join("\n")]);
  return { charts, error };
}

/** Do something now and then every few seconds while the page is seen; returns how to stop. */
function repeat(work, onError) {
  let timer = 0;
  let isOver = false;
  const again = async () => {
    if (!document.hidden) await work().catch(onError);
    if (!isOver) timer = setTimeout(again, AGAIN);
  };
  again();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
