// The page of `pomp studio`: a bar, and one of three views below it.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Choices } from "./choices.jsx";
import { Compare } from "./compare.jsx";
import { SaveMenu } from "./saving.jsx";
import { IconButton } from "./icons.jsx";
import { VIEWS, ask, asked, begin, clock, isLoading, refusal, rival } from "./state.js";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { isDark, toggleTheme } from "./theme.js";
import { Watch } from "./watch.jsx";

const LATER = { write: () => import("./write.jsx"), runs: () => import("./runs.jsx") };

function Bar() {
  const go = (view) => (event) => {
    event.preventDefault();
    ask({ view });
  };
  return (
    <header class="bar">
      <h1>
        pomp <i>studio</i>
      </h1>
      <nav class="tabs" aria-label="Views">
        {Object.entries(VIEWS).map(([view, name]) => (
          <a
            key={view}
            href={`?view=${view}`}
            aria-current={asked.value.view === view ? "page" : undefined}
            onClick={go(view)}
          >
            {name}
          </a>
        ))}
      </nav>
      <span class="spring" />
      {asked.value.view !== "runs" && <Choices />}
      <IconButton
        name={isDark.value ? "sun" : "moon"}
        label="Light or dark"
        keys="t"
        onClick={toggleTheme}
      />
    </header>
  );
}

/** A view whose script is loaded when it is first asked for. */
function Later({ view }) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    LATER[view]().then(({ default: View }) => isCurrent && setFound(() => View));
    return () => (isCurrent = false);
  }, [view]);
  const View = found;
  return View ? <View /> : <div class="view" />;
}

function WatchView() {
  if (!clock.episode.value)
    return refusal.value ? null : <p class="message">Recording an episode…</p>;
  return rival.value ? (
    <Compare clock={clock} rival={rival.value} />
  ) : (
    <Watch
      clock={clock}
      actions={<SaveMenu />}
      note={asked.value.world ? "its start changed" : null}
    />
  );
}

function App() {
  const { view } = asked.value;
  return (
    <div class="shell">
      <Bar />
      <main class={isLoading.value ? "view veil" : "view"} aria-busy={isLoading.value}>
        {refusal.value && view === "watch" && (
          <p class="error" role="alert">
            {refusal.value.message}
          </p>
        )}
        {view === "watch" ? <WatchView /> : <Later key={view} view={view} />}
      </main>
    </div>
  );
}

render(<App />, document.getElementById("app"));
begin().catch((error) => {
  refusal.value = error;
  throw error;
});
