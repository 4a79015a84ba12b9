// A text editor that marks errors where they are, as one types.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { lintGutter, linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { karel } from "./language.js";

const PAUSE = 250; // milliseconds without a key before a text is checked

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--sheet)", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sheet)", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--tint)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--hover) !important",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--sheet)",
    borderColor: "var(--edge)",
    color: "var(--ink)",
  },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad) 1.5px",
    textUnderlineOffset: "3px",
  },
});

/**
 * Props: `text` (the first), `label`, `check(text)` -> a list of `{from, to, message}`, `api`
 * (a ref that gets `replace(text)`).
 */
export function Editor({ text, label, check, api }) {
  const place = useRef(null);
  useEffect(() => {
    const view = new EditorView({
      parent: place.current,
      state: EditorState.create({ doc: text, extensions: extensions(label, check) }),
    });
    api.current = {
      replace: (next) =>
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
      text: () => view.state.doc.toString(),
    };
    return () => view.destroy();
  }, []);
  return <div class="editor" ref={place} />;
}

function extensions(label, check) {
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    highlightActiveLine(),
    lintGutter(),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
    keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
    linter((view) => check(view.state.doc.toString(), view.state.doc.length), { delay: PAUSE }),
    karel,
    look,
  ];
}
