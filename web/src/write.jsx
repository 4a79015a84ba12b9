// Writing a program or a machine and watching it at once; the start can be changed by clicking.
import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { download, post } from "./api.js";
import { Editor } from "./editor.jsx";
import { useKeys } from "./keys.jsx";
import { SaveMenu } from "./saving.jsx";
import { StartEditor, TOOLS } from "./start_editor.jsx";
import { ask, asked, clock, refusal, task } from "./state.js";
import { Deck, ProgramPanel, Scene } from "./watch.jsx";
import { Numbers } from "./world.jsx";

const FIRST = "DEF run m( WHILE c( frontIsClear c) w( move w) m)";

/** What the latest check said: `error`, `place`, or neither; and what the text is. */
const verdict = signal({ error: null, place: null, kind: null });

/** Check a text; one without errors is run. */
async function check(text, length) {
  try {
    const found = await post("check", { text, task: asked.peek().task });
    verdict.value = found;
    if (!found.error) {
      if (!isShown(text)) ask({ text, machine: "text" });
      return [];
    }
    const { from = 0, to = length } = found.place ?? {};
    const end = Math.min(Math.max(to, from + 1), length);
    return [{ from: Math.min(from, end), to: end, severity: "error", message: found.error }];
  } catch (error) {
    verdict.value = { error: error.message, place: error.place, kind: null };
    return [];
  }
}

/** Whether a text is what runs already, typed or by a machine's name. */
function isShown(text) {
  const { machine, text: typed } = asked.peek();
  return text === (machine === "text" ? typed : clock.episode.peek()?.machine.text);
}

/** What is in the editor at first: what was written, or the machine that was watched. */
function firstText() {
  const { text, machine } = asked.peek();
  const shown = clock.episode.peek()?.machine;
  if (machine === "text" && text) return text;
  return shown?.text ?? shown?.modes[0]?.program ?? FIRST;
}

/** Whether it is known what to begin with. */
function isReady() {
  return clock.episode.value || refusal.value || asked.value.machine === "text";
}

export default function Write() {
  const episode = clock.episode.value;
  useKeys(clock);
  return (
    <div class="view">
      <div class="stage">
        {episode ? <StartPanel episode={episode} /> : <div class="panel" />}
        <EditorPanel />
        {episode ? <ProgramPanel clock={clock} episode={episode} /> : <div class="panel" />}
      </div>
      {episode && <Deck clock={clock} episodes={[episode]} actions={<SaveMenu />} />}
    </div>
  );
}

function EditorPanel() {
  const api = useRef(null);
  const { error, place, kind } = verdict.value;
  const trouble = error ?? refusal.value?.message;
  const where = error && place ? `Line ${place.line}, column ${place.column}: ` : "";
  const save = () => {
    const name = kind === "machine" ? `${asked.peek().task}.machine` : "program.karel";
    download(new Blob([`${api.current.text().trimEnd()}\n`], { type: "text/plain" }), name);
  };
  const open = async (event) => {
    const input = event.currentTarget; // null once we have waited
    const [file] = input.files;
    if (file) api.current.replace(await file.text());
    input.value = "";
  };
  return (
    <div class="panel">
      <section class="part fills" aria-label="Text">
        <header>
          <h2>Program or machine</h2>
          <span class="tools">
            <label class="button bare small">
              Open
              <input type="file" class="unseen" onChange={open} />
            </label>
            <button type="button" class="button bare small" onClick={save}>
              Download
            </button>
          </span>
        </header>
        {isReady() && (
          <Editor text={firstText()} label="Program or machine" check={check} api={api} />
        )}
      </section>
      <section class={`part verdict${trouble ? " bad" : ""}`} role="status" data-verdict>
        {trouble
          ? `${where}${trouble}`
          : kind
            ? `A ${kind} without errors: it runs as you type.`
            : "…"}
      </section>
    </div>
  );
}

/** The start, ready to be changed; or the world at a later frame. */
function StartPanel({ episode }) {
  const [tool, setTool] = useState(null);
  const { world } = asked.value;
  if (!tool)
    return (
      <Scene
        clock={clock}
        episode={episode}
        tools={
          <button
            type="button"
            class="button bare small"
            onClick={() => (clock.seek(0), setTool("marker"))}
          >
            Change the start
          </button>
        }
      />
    );
  return (
    <div class="panel">
      <section class="part fills" aria-label="Start">
        <header>
          <h2>Start</h2>
          <span class="tools" role="group" aria-label="What a click changes">
            {Object.entries(TOOLS).map(([key, name]) => (
              <button
                key={key}
                type="button"
                class="button small"
                aria-pressed={tool === key}
                onClick={() => setTool(key)}
              >
                {name}
              </button>
            ))}
            <button
              type="button"
              class="button bare small"
              disabled={!world}
              onClick={() => ask({ world: null })}
            >
              As drawn
            </button>
            <button type="button" class="button small" onClick={() => setTool(null)}>
              Done
            </button>
          </span>
        </header>
        <StartEditor
          world={world ?? episode.sent.world}
          tool={tool}
          mostMarkers={task.value?.most_markers ?? 1}
          onChange={(next) =>
            ask({ world: { size: next.size, cells: next.cells, pose: next.pose } })
          }
        />
      </section>
      <section class="part" aria-label="Numbers">
        <Numbers episode={episode} t={Math.min(clock.t.value, episode.last)} />
      </section>
    </div>
  );
}
