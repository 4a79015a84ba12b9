// Curves of runs: each seed as a thin line, their mean with a band of its standard error.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { isDark, palette } from "./theme.js";

const SHORT = new Intl.NumberFormat("en", { notation: "compact" });

/** A number of at most five digits. */
function written(value) {
  if (value == null) return "none";
  return new Intl.NumberFormat("en", { maximumSignificantDigits: 5 }).format(value);
}

/** What writes a mark of an axis with as many digits as tell it from the next. */
function rounded(step) {
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(step) - 1e-9), 0), 12);
  return (mark) => (mark == null ? mark : mark.toFixed(digits).replace("-", "\u2212"));
}

/** Props: `chart` of `/api/charts`. */
export function Chart({ chart }) {
  const place = useRef(null);
  const dark = isDark.value;
  const plot = useRef(null);
  const key = seriesOf(chart)
    .map(({ label }) => label)
    .join("\n");
  useEffect(() => {
    const { width, height } = place.current.getBoundingClientRect();
    plot.current = new uPlot(optionsOf(chart, width, height), dataOf(chart), place.current);
    const watcher = new ResizeObserver(([{ contentRect }]) =>
      plot.current.setSize({ width: contentRect.width, height }),
    );
    watcher.observe(place.current);
    return () => {
      watcher.disconnect();
      plot.current.destroy();
    };
  }, [dark, key]);
  useEffect(() => plot.current.setData(dataOf(chart)), [chart]);
  return (
    <section class="chart" aria-label={`${chart.what} over ${chart.over}`}>
      <h3>
        {chart.what} over {chart.over}
      </h3>
      <div class="plot" ref={place} role="img" aria-label={describe(chart)} />
    </section>
  );
}

function describe({ what, over, curves, bands }) {
  const latest = (values) => values[values.length - 1];
  const said = bands.length
    ? bands.map(
        ({ task, seeds, mean }) => `${task}, ${[seeds].flat().length} seeds: mean ${latest(mean)}`,
      )
    : curves.map(({ task, seed, returns }) => `${task}, seed ${seed}: ${latest(returns)}`);
  return `${what} over ${over}. Latest: ${said.join("; ")}.`;
}

/** What is drawn, in the order of the data: for each task its band and mean, then its seeds. */
function seriesOf({ curves, bands, is_best }) {
  const names = [...new Set(curves.map(({ task }) => task))];
  const many = names.length > 1;
  return [
    ...bands.flatMap((band) => {
      const colour = names.indexOf(band.task);
      const count = [band.seeds].flat().length;
      const mean = `mean of ${count} seeds`;
      const label = many ? `${band.task}, ${mean}` : mean;
      return [
        { at: band.at, values: band.mean, label, colour, width: 2, is_best },
        { at: band.at, values: band.low, label: `${label}, low`, colour, width: 0, is_best },
        { at: band.at, values: band.high, label: `${label}, high`, colour, width: 0, is_best },
      ];
    }),
    ...curves.map(({ task, seed, at, returns }) => ({
      at,
      values: returns,
      label: many ? `${task}, seed ${seed}` : `seed ${seed}`,
      colour: names.indexOf(task),
      width: bands.length ? 0.7 : 1.4,
      is_best,
    })),
  ];
}

function dataOf(chart) {
  const tables = seriesOf(chart).map(({ at, values }) => [at, values]);
  return tables.length ? uPlot.join(tables) : [[]];
}

function optionsOf(chart, width, height) {
  const colours = palette();
  const series = seriesOf(chart);
  const axis = {
    stroke: colours.muted,
    font: "11.5px system-ui, sans-serif",
    grid: { stroke: colours.line, width: 1 },
    ticks: { stroke: colours.line },
  };
  /** Without a pointer over the chart: the latest. */
  const told = (plot, value, number) => {
    const latest = () => plot.data[number].findLast((one) => one != null);
    return written(value ?? latest());
  };
  return {
    width,
    height,
    legend: { show: series.length <= 8, live: true },
    cursor: { points: { size: 6 } },
    scales: { x: { time: false, distr: chart.is_log ? 3 : 1 } },
    axes: [
      { ...axis, space: 70, values: (_, marks) => marks.map((mark) => mark && SHORT.format(mark)) },
      { ...axis, size: 62, values: (_, marks, __, ___, step) => marks.map(rounded(step)) },
    ],
    bands: chart.bands.map((_, n) => ({
      series: [3 * n + 3, 3 * n + 2],
      fill: `${colours.modes[series[3 * n].colour % colours.modes.length]}33`,
    })),
    series: [
      { label: chart.over, value: told },
      ...series.map(({ label, colour, width: thick, is_best }) => ({
        label,
        value: told,
        class: thick ? undefined : "edge-row",
        stroke: colours.modes[colour % colours.modes.length],
        width: thick,
        alpha: thick && thick < 1 ? 0.55 : 1,
        spanGaps: true,
        points: { show: false },
        paths: is_best ? uPlot.paths.stepped({ align: 1 }) : undefined,
      })),
    ],
  };
}
