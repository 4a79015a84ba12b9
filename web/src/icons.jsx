// The signs on the buttons, drawn in a box of 16.
const PATHS = {
  play: "M4 2.2v11.6L13.6 8z",
  pause: "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z",
  first: "M2.5 3h1.8v10H2.5zM13.5 3v10L5.5 8z",
  back: "M11.5 3v10L4 8zM12 3h1.8v10H12z",
  step: "M4.5 3v10L12 8zM2.2 3H4v10H2.2z",
  mode: "M2 3v10l6-5zM8 3v10l6-5z",
  end: "M2.5 3v10l8-5zM11.7 3h1.8v10h-1.8z",
  event: "M8 1.5 9.9 6l4.6.4-3.5 3 1.1 4.6L8 11.5 3.9 14 5 9.4l-3.5-3L6.1 6z",
  sun: "M8 4.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8zM7.3.6h1.4v2.3H7.3zM7.3 13.1h1.4v2.3H7.3zM.6 7.3h2.3v1.4H.6zM13.1 7.3h2.3v1.4h-2.3zM2.3 3.3l1-1 1.6 1.6-1 1zM11.1 12.1l1-1 1.6 1.6-1 1zM2.3 12.7l1.6-1.6 1 1-1.6 1.6zM11.1 3.9l1.6-1.6 1 1-1.6 1.6z",
  moon: "M6.2 1.6a6.6 6.6 0 1 0 8.2 8.2A5.6 5.6 0 0 1 6.2 1.6z",
  dice: "M3.5 2A1.5 1.5 0 0 0 2 3.5v9A1.5 1.5 0 0 0 3.5 14h9a1.5 1.5 0 0 0 1.5-1.5v-9A1.5 1.5 0 0 0 12.5 2zM5 4a1.1 1.1 0 1 1 0 2.2A1.1 1.1 0 0 1 5 4zm3 2.9a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.2zm3 2.9a1.1 1.1 0 1 1 0 2.2 1.1 1.1 0 0 1 0-2.2z",
  save: "M7.2 1.5h1.6v6.7l2.3-2.3 1.1 1.1L8 11.2 3.8 7l1.1-1.1 2.3 2.3zM2.5 12.5h11V14h-11z",
  keys: "M1.5 4h13v8.5h-13zM3 5.5V7h1.5V5.5zm2.8 0V7h1.5V5.5zm2.8 0V7h1.5V5.5zm2.9 0V7H13V5.5zM3 8v1.5h1.5V8zm8.5 0v1.5H13V8zM5.5 9.8v1.4h5V9.8z",
};

/** Props: `name`. What it means is said by the button around it. */
export function Icon({ name }) {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <path fill-rule="evenodd" d={PATHS[name]} />
    </svg>
  );
}

/** A button that shows a sign; `label` is its name and its hint. */
export function IconButton({ name, label, keys, ...others }) {
  const hint = keys ? `${label} (${keys})` : label;
  return (
    <button type="button" class="button icon bare" aria-label={label} title={hint} {...others}>
      <Icon name={name} />
    </button>
  );
}
