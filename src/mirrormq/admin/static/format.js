// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (value) => (typeof value === "number" ? whole.format(value) : "–");

export function rate(value) {
  if (typeof value !== "number") return "–";
  if (value === 0) return "0/s";
  return `${value < 10 ? value.toFixed(value < 1 ? 2 : 1) : whole.format(value)}/s`;
}

export function short(value) {
  const size = Math.abs(value);
  for (const [limit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return `${+(value / limit).toFixed(size >= limit * 100 ? 0 : 1)}${sign}`;
  }
  return `${+value.toFixed(size < 10 ? 2 : 0)}`;
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < 5) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : whole.format(value)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

export function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

const two = (value) => String(value).padStart(2, "0");

export function when(value) {
  const moment = new Date(value);
  if (Number.isNaN(moment.getTime())) return String(value);
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${clock(moment)}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

export const clock = (moment) => `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
