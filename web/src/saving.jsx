// Files of what is shown: pictures by the server's renderer, the episode as one page, the machine.
import { useEffect, useRef, useState } from "preact/hooks";
import { download, post } from "./api.js";
import { Icon } from "./icons.jsx";
import { asked, clock, refusal, requestOf } from "./state.js";

const MOST_PICTURES = 400; // of an animation

function stem() {
  const { task, machine, seed } = asked.peek();
  const name = machine.replace(/^zoo:/, "").replace(/[^A-Za-z0-9]+/g, "-") || task;
  return `${name}-seed${seed}`;
}

async function savePicture(format) {
  const [frame, episode] = [clock.t.peek(), clock.episode.peek()];
  const every = Math.max(1, Math.ceil((episode.last + 1) / MOST_PICTURES));
  const part = format === "gif" ? { first: 0, last: episode.last, every } : { frame };
  const wanted = { ...requestOf(asked.peek(), asked.peek().machine), format, ...part };
  const blob = await post("export", wanted, undefined, "blob");
  download(blob, format === "gif" ? `${stem()}.gif` : `${stem()}-${frame}.${format}`);
}

async function savePage() {
  const wanted = requestOf(asked.peek(), asked.peek().machine);
  download(await post("page", wanted, undefined, "blob"), `${stem()}.html`);
}

function saveMachine() {
  const { machine } = clock.episode.peek();
  download(new Blob([machine.text], { type: "text/plain" }), `${machine.task}.machine`);
}

const FILES = [
  ["This frame as PNG", () => savePicture("png")],
  ["This frame as SVG", () => savePicture("svg")],
  ["The episode as GIF", () => savePicture("gif")],
  ["The episode as one page", savePage],
  ["The machine as text", saveMachine, () => clock.episode.value?.machine.text != null],
];

export function SaveMenu() {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const frame = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event) => {
      if (
        event.key === "Escape" ||
        (event.type === "pointerdown" && !frame.current.contains(event.target))
      )
        setOpen(false);
    };
    addEventListener("keydown", close);
    addEventListener("pointerdown", close);
    return () => {
      removeEventListener("keydown", close);
      removeEventListener("pointerdown", close);
    };
  }, [isOpen]);
  const save = (write) => async () => {
    setOpen(false);
    setBusy(true);
    await Promise.resolve(write()).catch((error) => (refusal.value = error));
    setBusy(false);
  };
  return (
    <div class="menu above" ref={frame}>
      <button
        type="button"
        class="button bare"
        aria-label="Save"
        aria-expanded={isOpen}
        aria-busy={isBusy}
        disabled={isBusy}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="save" /> <span class="wordy">{isBusy ? "Saving…" : "Save"}</span>
      </button>
      {isOpen && (
        <ul>
          {FILES.filter(([, , isThere]) => !isThere || isThere()).map(([name, write]) => (
            <li key={name}>
              <button type="button" class="button" onClick={save(write)}>
                {name}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
