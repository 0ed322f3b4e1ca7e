import { html, useEffect, useRef, useState } from "../vendored/preact.js";
import { time } from "../format.js";

const HEIGHT = 160, LEFT = 72, RIGHT = 8, TOP = 6, BOTTOM = 24; // px
const DAY_MS = 86_400_000;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 345_600];

// `times`: ms, ascending. `series`: [{label, values}], null where nothing is known. `format(value)`: of the axis and the figures.
// `binary`: the axis has steps of KiB, MiB. `shared`: [index, set] of the pointed moment, for plots that have the same times.
// What the plot says is told as text, too: the last value of each series.
export function Plot({ title, times, series, format, binary, shared }) {
  const holder = useRef();
  const [width, measure] = useState(0);
  const own = useState(null), [pointed, point] = shared || own;
  useEffect(() => {
    const watcher = new ResizeObserver(() => measure(holder.current.clientWidth));
    watcher.observe(holder.current);
    return () => watcher.disconnect();
  }, []);
  const last = times.length - 1, shown = pointed !== null && pointed <= last ? pointed : null;
  const scale = scaled(times, series, width);
  const near = (event) => point(nearest(times, scale, event.clientX - holder.current.getBoundingClientRect().left));
  return html`<figure class="plot" aria-label=${title}>
    <figcaption><strong>${title}</strong>${series.map((one, i) => html`<span class=${`key series-${i + 1}`}>${one.label} <b>${format(one.values[last])}</b></span>`)}</figcaption>
    <div ref=${holder} class="plot-area" aria-hidden="true" onPointerMove=${near} onPointerLeave=${() => point(null)}>
      ${width > 0 && html`<svg width=${width} height=${HEIGHT}>
        ${ticks(scale.most, 4, binary).map((value) => html`<line x1=${LEFT} x2=${width} y1=${scale.y(value)} y2=${scale.y(value)} /><text x=${LEFT - 8} y=${scale.y(value) + 4} text-anchor="end">${format(value)}</text>`)}
        ${moments(scale, width).map(({ ms, text }) => html`<text x=${scale.x(ms)} y=${HEIGHT - 4} text-anchor="middle">${text}</text>`)}
        ${series.map((one, i) => html`<path class=${`series-${i + 1}`} d=${drawn(times, one.values, scale)} />`)}
        ${shown !== null && html`<line class="pointer" x1=${scale.x(times[shown])} x2=${scale.x(times[shown])} y1=${TOP} y2=${HEIGHT - BOTTOM} />`}
      </svg>`}
      ${shown !== null && html`<div class="tip" style=${beside(scale.x(times[shown]), width)}>${[time(times[shown]).slice(scale.span > DAY_MS ? 5 : 11), ...series.map((one) => `${one.label} ${format(one.values[shown])}`)].join("  ·  ")}</div>`}
    </div>
  </figure>`;
}

function scaled(times, series, width) {
  const from = times[0] ?? 0, span = Math.max(10_000, (times[times.length - 1] ?? 0) - from);
  const most = series.reduce((all, one) => one.values.reduce((more, value) => Math.max(more, value ?? 0), all), 0) * 1.1 || 1;
  return {
    from, span, most,
    x: (ms) => LEFT + ((ms - from) / span) * (width - LEFT - RIGHT),
    y: (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - BOTTOM - TOP),
  };
}

// A line; where a value is not known it has a gap. A value between two gaps is a dot.
function drawn(times, values, { x, y }) {
  let path = "", open = false;
  values.forEach((value, i) => {
    const known = value !== null && value !== undefined;
    if (known) path += `${open ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}${open ? "" : (values[i + 1] ?? null) === null ? "m-2 0h4" : ""}`;
    open = known;
  });
  return path;
}

// 0 and up to `count` values below `most` whose distance is 1, 2 or 5 times a power of ten, or of two times a power of 1,024.
function ticks(most, count, binary) {
  const unit = binary ? 1024 ** Math.max(0, Math.floor(Math.log2(most / count) / 10)) : 10 ** Math.floor(Math.log10(most / count));
  const step = (binary ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 5, 10]).find((one) => one * unit * count >= most) * unit;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

// Round times, about 90 px from each other.
function moments({ from, span }, width) {
  const wanted = (span / 1000) * (90 / Math.max(90, width - LEFT));
  const step = (STEPS_S.find((one) => one >= wanted) || 604_800) * 1000, zone = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let ms = Math.ceil((from - zone) / step) * step + zone; ms <= from + span; ms += step)
    found.push({ ms, text: step < DAY_MS ? time(ms).slice(11, step < 60_000 ? 19 : 16) : time(ms).slice(5, 10) });
  return found;
}

function nearest(times, { x }, at) {
  const found = times.findIndex((ms) => x(ms) >= at);
  if (found <= 0) return found === 0 ? 0 : times.length - 1;
  return at - x(times[found - 1]) < x(times[found]) - at ? found - 1 : found;
}

// A few numbers as bars in a line of text; `label` tells them.
export function Spark({ values, label }) {
  const most = Math.max(1, ...values);
  return html`<svg class="spark" role="img" aria-label=${label} viewBox=${`0 0 ${values.length * 4} 16`} preserveAspectRatio="none"><title>${label}</title><path d=${values.map((value, i) => `M${i * 4 + 2} 16v${-(value && Math.max(1, value / most * 16)).toFixed(1)}`).join("")} /></svg>`;
}

const beside = (x, width) => x > width / 2 ? { insetInlineEnd: `${width - x + 12}px` } : { insetInlineStart: `${x + 12}px` };
