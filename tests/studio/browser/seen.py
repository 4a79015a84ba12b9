"""What a page shows, read off it; no tests."""

import time
from pathlib import Path

MACHINE = "zoo:UpNDown/text"
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"

_SCRUB = """async (frames) => {
  const canvas = document.querySelector(".timeline canvas");
  const box = canvas.getBoundingClientRect();
  const next = () => new Promise(requestAnimationFrame);
  await next();
  const begin = performance.now();
  for (let i = 0; i < frames; i++) {
    const clientX = box.left + box.width * ((i * 0.618) % 1);
    const drag = { clientX, clientY: box.top + 9, buttons: 1, bubbles: true };
    canvas.dispatchEvent(new PointerEvent("pointermove", drag));
    await next();
  }
  return (performance.now() - begin) / frames;
}"""


def until(page, is_so, seconds=20):
    """Wait until a function of the page, given as JavaScript, is true."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"() => {is_so}"):
        assert time.monotonic() < end, f"still not so: {is_so}"
        page.wait_for_timeout(30)


def time_of(page):
    """The frame that is shown."""
    return int(page.inner_text("[data-t]"))


def last_of(page):
    """The last frame."""
    return int(page.inner_text(".place").split(" of ")[1])


def number_of(page, name):
    """A number below the world, as it is written."""
    return page.inner_text(f"[data-number='{name}']")


def world_of(page):
    """The pixels of the world."""
    return page.evaluate("document.querySelector('.world canvas').toDataURL()")


def press(page, name, times=1):
    """Press a button by its name."""
    for _ in range(times):
        page.get_by_role("button", name=name, exact=True).click()


def scrub(page, frames):
    """Scrub all over the episode; returns milliseconds for each frame."""
    return page.evaluate(_SCRUB, frames)


def heap_of(page):
    """Bytes that the page's scripts hold after collecting what they dropped."""
    return page.evaluate("(gc(), gc(), performance.memory.usedJSHeapSize)")
