// The player of one file: the episode stands in the page, nothing is fetched.
import { render } from "preact";
import { bytesOf, through } from "./arrays.js";
import { Clock } from "./clock.js";
import { Episode } from "./episode.js";
import { IconButton } from "./icons.jsx";
import "./style.css";
import { isDark, toggleTheme } from "./theme.js";
import { Watch } from "./watch.jsx";

async function embedded() {
  const packed = bytesOf(document.getElementById("pomp-episode").textContent.trim());
  const bytes = await through(packed, new DecompressionStream("gzip"));
  return new Episode(JSON.parse(new TextDecoder().decode(bytes)));
}

function Page({ clock }) {
  const { machine } = clock.episode.value;
  return (
    <div class="shell">
      <header class="bar">
        <h1>
          pomp <i>{machine.headline}</i>
        </h1>
        <span class="spring" />
        <IconButton
          name={isDark.value ? "sun" : "moon"}
          label="Light or dark"
          onClick={toggleTheme}
        />
      </header>
      <Watch clock={clock} />
    </div>
  );
}

const place = document.getElementById("pomp-player");
const clock = new Clock();
embedded().then(
  (episode) => {
    clock.load(episode, Number(new URLSearchParams(location.hash.slice(1)).get("t")) || 0);
    render(<Page clock={clock} />, place);
  },
  (error) =>
    render(<p class="error">This episode cannot be read: {String(error.message)}</p>, place),
);
