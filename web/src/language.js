// Colours for Karel programs and machine texts in the editor. The parser is the server's.
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const KINDS = [
  [/^#.*/, "comment"],
  [/^(DEF|run|IF|IFELSE|ELSE|WHILE|REPEAT|not)\b/, "keyword"],
  [/^(machine|sensors|start|mode|if|else|and|with|end|stop)\b/, "keyword"],
  [/^R=\d+/, "number"],
  [/^[a-z]\(|^[a-z]\)|^->|^[():,]/, "bracket"],
  [/^(move|turnLeft|turnRight|pickMarker|putMarker)\b/, "atom"],
  [/^[A-Za-z_][\w-]*/, "name"],
];

const language = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    for (const [pattern, kind] of KINDS) if (stream.match(pattern)) return kind;
    stream.next();
    return null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)" },
  { tag: tags.number, color: "var(--mode-1)" },
  { tag: tags.bracket, color: "var(--muted)" },
  { tag: tags.atom, fontWeight: "600" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

export const karel = [language, syntaxHighlighting(colours)];
