// What tests/support/accessibility.py asks of a page. An expression: an object of functions.
({
  structure: () => {
    const shown = element => element.checkVisibility({visibilityProperty: true});
    const found = [];
    if (!document.documentElement.lang) found.push("no language");
    if (!document.title.trim()) found.push("no title");
    for (const [selector, what] of [["main, [role=main]", "main"], ["h1", "h1"]]) {
      const count = [...document.querySelectorAll(selector)].filter(shown).length;
      if (count !== 1) found.push(`${count} of ${what}`);
    }
    let level = 0;
    for (const heading of [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown)) {
      const next = Number(heading.tagName[1]);
      if (next > level + 1) found.push(`h${next} behind h${level}: ${heading.textContent.slice(0, 40)}`);
      level = next;
    }
    const ids = [...document.querySelectorAll("[id]")].map(element => element.id);
    for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) found.push(`id twice: ${id}`);
    for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]"))
      for (const name of ["aria-labelledby", "aria-describedby", "for"])
        for (const id of (element.getAttribute(name) ?? "").split(/\s+/).filter(Boolean))
          if (!document.getElementById(id)) found.push(`${name} of nothing: ${id}`);
    for (const element of document.querySelectorAll("[tabindex]"))
      if (element.tabIndex > 0) found.push(`tabindex ${element.tabIndex}: ${element.outerHTML.slice(0, 80)}`);
    for (const table of [...document.querySelectorAll("table")].filter(shown))
      if (!table.querySelector("th")) found.push("a table without header cells");
    return found;
  },

  contrast: () => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const known = new Map();
    const rgba = text => {
      if (!known.has(text)) {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
        known.set(text, [red, green, blue, alpha / 255]);
      }
      return known.get(text);
    };
    const over = (top, below) => [0, 1, 2].map(at => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
    const light = colour => {
      const [red, green, blue] = colour.slice(0, 3).map(part => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    const canvasColour = rgba(isDark ? "black" : "white");
    const behind = element => {
      const layers = [];
      for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
      return layers.reverse().reduce((below, top) => over(top, below), canvasColour);
    };
    const found = new Set();
    const look = (element, text) => {
      if (!element.checkVisibility({visibilityProperty: true, opacityProperty: true})) return;
      if (element.closest(":disabled, [aria-disabled=true], [aria-hidden=true], option")) return;
      const style = getComputedStyle(element);
      const ground = behind(element);
      let faded = 1;
      for (let at = element; at; at = at.parentElement) faded *= Number(getComputedStyle(at).opacity);
      const ink = rgba(style.color);
      const [one, other] = [light(over([...ink.slice(0, 3), ink[3] * faded], ground)), light(ground)];
      const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5))
        found.add(`${ratio.toFixed(2)}: "${text.trim().slice(0, 40)}" in <${element.localName} class="${element.className}">`);
    };
    const walker = document.createTreeWalker(document.querySelector("dialog[open]") ?? document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      if (node.data.trim() && node.parentElement.getClientRects().length) look(node.parentElement, node.data);
    for (const field of document.querySelectorAll("input, textarea, select"))
      if (field.getClientRects().length) look(field, field.value);
    return [...found];
  },

  wide: () => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const scrolls = element => {
      for (let at = element.parentElement; at && at !== document.body; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== "visible") return true;
      return false;
    };
    const isWide = element => element.getBoundingClientRect().right > width + 0.5 && !scrolls(element);
    const wide = [...document.body.querySelectorAll("*")].filter(isWide);
    return [`${document.documentElement.scrollWidth} of ${width}`, ...wide.slice(0, 8).map(each => each.outerHTML.slice(0, 120))];
  },

  // Boxes that scroll sideways; text that is as it is may.
  sideways: () => [...document.querySelectorAll("*")]
    .filter(each => /auto|scroll/.test(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth + 1)
    .filter(each => !each.matches("pre, textarea, input, select"))
    .map(each => `scrolls sideways: ${each.outerHTML.slice(0, 100)}`),

  // Smaller than 24 by 24, and so near to another target that a finger may hit that one.
  small: () => {
    const isTarget = each => each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length && !each.closest("[aria-hidden=true]");
    const reachable = document.querySelector("dialog[open]") ?? document; // a modal dialog makes the rest inert
    const targets = [...reachable.querySelectorAll("button, a[href], input, select, textarea, summary, [role=button], [role=tab]")]
      .filter(isTarget)
      .map(each => ({each, box: each.getBoundingClientRect(), isInline: getComputedStyle(each).display === "inline"}));
    const middle = ({box}) => [box.x + box.width / 2, box.y + box.height / 2];
    const distance = ([x, y], {box}) => Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
    return targets
      .filter(({each, box, isInline}) => box.width > 1 && box.height > 1 && (box.width < 24 || box.height < 24) && !(isInline && each.closest("p, dd, li")))
      .filter(one => targets.some(other => other !== one && distance(middle(one), other) < 12))
      .map(({each, box}) => `${Math.round(box.width)} x ${Math.round(box.height)}: ${each.outerHTML.slice(0, 100)}`);
  },

  focus: () => {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const ringed = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
    const middle = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const text = element.getAttribute("aria-label") ?? element.textContent.trim() ?? "";
    return {
      name: (text || element.labels?.[0]?.textContent.trim() || element.id || element.tagName).slice(0, 60),
      ringed,
      shown: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
      covered: Boolean(middle && !element.contains(middle) && !middle.contains(element) && !middle.closest("label")),
    };
  },
})
