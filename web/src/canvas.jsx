// A canvas in device pixels that is drawn again when its size, the theme or its data change.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isDark } from "./theme.js";

/** Props: `draw(pen, wide, high, ratio)`, `data` (redraw when an entry changes); others go on. */
export function Canvas({ draw, data, ...others }) {
  const canvas = useRef(null);
  const size = useSize(canvas);
  const dark = isDark.value;
  useLayoutEffect(() => {
    const element = canvas.current;
    const [wide, high] = [
      Math.round(size.width * size.ratio),
      Math.round(size.height * size.ratio),
    ];
    if (!wide || !high) return;
    if (element.width !== wide) element.width = wide;
    if (element.height !== high) element.height = high;
    const pen = element.getContext("2d");
    pen.clearRect(0, 0, wide, high);
    draw(pen, wide, high, size.ratio);
  }, [size, dark, ...data]);
  return <canvas ref={canvas} {...others} />;
}

/** The size of an element in CSS pixels, and device pixels for each. */
export function useSize(element) {
  const [size, setSize] = useState({ width: 0, height: 0, ratio: 1 });
  useLayoutEffect(() => {
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element.current;
      const ratio = window.devicePixelRatio || 1;
      setSize((old) =>
        old.width === width && old.height === height && old.ratio === ratio
          ? old
          : { width, height, ratio },
      );
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(element.current);
    measure();
    return () => watcher.disconnect();
  }, []);
  return size;
}
