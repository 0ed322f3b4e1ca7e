const NONE = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const there = (format) => (value) => value === null || value === undefined || Number.isNaN(value) ? NONE : format(value);

export const count = there((value) => whole.format(value));
export const rough = there((value) => value >= 1000 ? whole.format(value) : short.format(value));
export const perSecond = there((value) => `${rough(value)}/s`);
export const money = there((value) => value && value < 0.01 ? "< $0.01" : `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
export const bytes = there((value) => {
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return `${short.format(value)} ${UNITS[unit]}`;
});

export const bytesPerSecond = there((value) => `${bytes(value)}/s`);

const SPANS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
export const duration = there((ms) => {
  if (ms < 0) return "no limit";
  const [unit, size] = SPANS.find(([, one]) => ms >= one) || ["ms", 1];
  return `${ms < 10 * size && ms % size ? (Math.floor(ms / size * 10) / 10).toFixed(1).replace(".0", "") : Math.floor(ms / size)} ${unit}`;
});

const pad = (value, digits = 2) => String(value).padStart(digits, "0");
// ISO's order in the browser's time zone: sorts as text, and reads the same everywhere.
export const time = there((ms) => {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
});
export const timeExact = there((ms) => `${time(ms)}.${pad(ms % 1000, 3)}`);
export const ago = there((ms) => {
  const passed = Date.now() - ms;
  const whole = Math.round(Math.abs(passed) / 1000) * 1000;
  return whole < 1000 ? "just now" : passed < 0 ? `in ${duration(whole)}` : `${duration(whole)} ago`;
});
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
