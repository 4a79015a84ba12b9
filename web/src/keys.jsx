// Keyboard shortcuts, and the dialog that lists them.
import { useEffect, useRef } from "preact/hooks";
import { toggleTheme } from "./theme.js";
import { hurry } from "./transport.jsx";

const step = (by) => (clock) => clock.seek(clock.t.peek() + by);
const jump = (name) => (clock) => clock.jump(name);

const KEYS = [
  [[" "], "space", "play or pause", (clock) => clock.toggle()],
  [["ArrowRight", "."], "→", "one action on", step(1)],
  [["ArrowLeft", ","], "←", "one action back", step(-1)],
  [["ArrowDown", "n"], "↓", "to the next mode", jump("nextMode")],
  [["ArrowUp", "p"], "↑", "to the previous mode", jump("previousMode")],
  [["e"], "e", "to the next event", jump("nextEvent")],
  [["E"], "shift e", "to the previous event", jump("previousEvent")],
  [["Home"], "Home", "to the start", (clock) => clock.seek(0)],
  [["End"], "End", "run to the end, or to a breakpoint", (clock) => clock.runToEnd()],
  [["+", "="], "+", "twice as fast", (clock) => hurry(clock, 2)],
  [["-", "_"], "−", "half as fast", (clock) => hurry(clock, 0.5)],
  [["t"], "t", "light or dark", toggleTheme],
];

const TYPING =
  "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true], dialog";

/** Listen for the shortcuts as long as the component is there. */
export function useKeys(clock) {
  useEffect(() => {
    const listen = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.target.closest?.(TYPING) || !clock.episode.peek()) return;
      const isSlider = event.target.matches?.("input[type=range]");
      if (isSlider && /^(Arrow|Home|End)/.test(event.key)) return;
      if (event.key === " " && event.target.closest?.("button, a, summary, [role=button]")) return;
      const found = KEYS.find(([names]) => names.includes(event.key));
      if (!found) return;
      event.preventDefault();
      found[3](clock);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [clock]);
}

/** Props: `isOpen`, `onClose`. */
export function KeysDialog({ isOpen, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (isOpen && !dialog.current.open) dialog.current.showModal();
  }, [isOpen]);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([, sign, what]) => [
          <dt>
            <kbd>{sign}</kbd>
          </dt>,
          <dd>{what}</dd>,
        ])}
        <dt>click a line</dt>
        <dd>to its next execution; with shift, to the previous one</dd>
        <dt>click an edge</dt>
        <dd>stop when the machine goes along it</dd>
      </dl>
      <form method="dialog">
        <button class="button">Close</button>
      </form>
    </dialog>
  );
}
