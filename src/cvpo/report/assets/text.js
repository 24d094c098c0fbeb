"use strict";
// Elements and numbers. What runs say is always text, never markup.

/** A new element; attributes whose value is null or false are left out, `on...` are listeners. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

/** 1500000 as "1.5M". */
function short(value) {
  const sizes = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const [size, letter] = sizes.find(([s]) => Math.abs(value) >= s) ?? [1, ""];
  return `${Number((value / size).toPrecision(4))}${letter}`;
}

/** A measured value, to three digits. */
function amount(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 1000 ? `${Number(value.toPrecision(3))}` : short(Number(value.toPrecision(3)));
}

function interval([mean, low, high]) {
  return low === null ? amount(mean) : `${amount(mean)} [${amount(low)}, ${amount(high)}]`;
}

function percent(share) {
  if (share >= 0.995 && share < 1) return ">99%";
  return share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`;
}

function duration(seconds) {
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  return seconds < 7200
    ? `${Number((seconds / 60).toPrecision(3))} min`
    : `${Number((seconds / 3600).toPrecision(3))} h`;
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** "a, b and c" */
function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** Whether a text has all the words that somebody typed. */
function matches(text, typed) {
  const lower = text.toLowerCase();
  return typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}
