// Colours, by the light that the reader's system asks for.

const darkness = matchMedia("(prefers-color-scheme: dark)");

function methodColor(method) {
  return darkness.matches ? method.dark : method.color;
}

/** A colour of the page's style, such as "ink". */
function pageColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function faded(color, alpha) {
  return (
    color +
    Math.round(255 * alpha)
      .toString(16)
      .padStart(2, "0")
  );
}

function swatch(method) {
  const mark = element("span", { class: "swatch" });
  mark.style.background = methodColor(method);
  return mark;
}
