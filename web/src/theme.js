// Light or dark: the reader's choice, the system's otherwise; colours for what is drawn on canvas.
import { effect, signal } from "@preact/signals";

const KEY = "pomp-theme";
const TONES = 16; // colours of modes before they are used again
const system = matchMedia("(prefers-color-scheme: dark)");

/** "auto", "light" or "dark". */
export const choice = signal(remembered());
/** Whether dark colours are shown now. */
export const isDark = signal(false);

/** Storage is refused to some pages that are opened from disk. */
function remembered() {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "auto";
  } catch {
    return "auto";
  }
}

function remember(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    /* the choice then lasts as long as the page */
  }
}

function apply() {
  isDark.value = choice.value === "auto" ? system.matches : choice.value === "dark";
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

system.addEventListener("change", apply);
effect(apply);

/** Go from what is shown to the other one. */
export function toggleTheme() {
  choice.value = isDark.value ? "light" : "dark";
  remember(choice.value);
}

let cached = null;

/** The colours of the style sheet that canvases draw with. */
export function palette() {
  if (cached?.isDark === isDark.value) return cached;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["paper", "sheet", "ink", "muted", "line", "ground", "grid", "wall", "marker"];
  const more = ["count", "agent", "good", "bad", "accent", "edge"];
  cached = Object.fromEntries([...names, ...more].map((name) => [name, read(name)]));
  cached.modes = Array.from({ length: TONES }, (_, k) => read(`mode-${k}`));
  cached.isDark = isDark.value;
  return cached;
}

/** The colour of a mode; the start and the end have none of their own. */
export function modeColour(mode, count) {
  const { modes, muted } = palette();
  return mode < 0 || mode >= count ? muted : modes[mode % modes.length];
}

/** The same as a CSS value that follows the theme. */
export function modeVariable(mode, count) {
  return mode < 0 || mode >= count ? "var(--muted)" : `var(--mode-${mode % TONES})`;
}
