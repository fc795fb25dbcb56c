// What a page can do: dark or light, the menu on phones, copying of commands, and search. All of it works without a server, also from files.
(() => {
  const top = document.currentScript.dataset.top;
  const root = document.documentElement;

  document.getElementById("theme").addEventListener("click", () => {
    const prefersDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : prefersDark;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* It lasts as long as the page then. */ }
  });

  const menu = document.getElementById("menu");
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", document.body.classList.toggle("menu")));
  document.querySelector("#pages [aria-current]")?.scrollIntoView({ block: "center" });
  scrollTo({ top: location.hash ? scrollY : 0 });

  for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }

  const input = document.getElementById("search");
  const results = document.getElementById("results");
  let loading;
  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = top + "search-index.js";
    script.onload = () => {
      for (const s of window.searchIndex) { s.head = s.h.toLowerCase(); s.page = s.p.toLowerCase(); s.text = s.t.toLowerCase(); }
      resolve(window.searchIndex);
    };
    script.onerror = reject;
    document.head.append(script);
  });

  // A section is found when it has all words, or beginnings of words. Words in its heading count most.
  const beginning = (words) => new RegExp("(?<![\\p{L}\\p{N}])(?:" + words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "iu");
  const find = (sections, query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => ({ word, at: beginning([word]) }));
    const found = [];
    for (const section of sections) {
      let score = 0;
      for (const { word, at } of words) {
        const points = (section.head === word ? 40 : 0) + (at.test(section.head) ? 20 : 0) + (at.test(section.page) ? 6 : 0) +
          (at.test(section.text) ? 3 : section.text.includes(word) ? 1 : 0) / (1 + section.text.length / 3000);
        if (!points) { score = 0; break; }
        score += points;
      }
      if (score && /^(adr|development|test)\//.test(section.u)) { score /= 3; } // Why comes after how.
      if (score) { found.push({ section, score }); }
    }
    return { words, found: found.sort((a, b) => b.score - a.score).slice(0, 12).map((f) => f.section) };
  };

  const marked = (text, words) => {
    const span = document.createElement("span");
    const any = beginning(words.map(({ word }) => word));
    const from = Math.max(0, text.search(any) - 60);
    let rest = (from ? "… " : "") + text.slice(from, from + 170);
    for (let match; rest && (match = any.exec(rest)) && match[0];) {
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      span.append(rest.slice(0, match.index), mark);
      rest = rest.slice(match.index + match[0].length);
    }
    span.append(rest);
    return span;
  };

  const show = async () => {
    const query = input.value.trim();
    if (query.length < 2) { results.hidden = true; return; }
    const sections = await load();
    if (query !== input.value.trim()) { return; }
    const { words, found } = find(sections, query);
    results.replaceChildren(...found.map((section) => {
      const link = document.createElement("a");
      link.href = top + section.u;
      const head = document.createElement("b");
      head.textContent = section.h;
      const page = document.createElement("small");
      page.textContent = section.h === section.p ? "" : "  " + section.p;
      link.append(head, page, marked(section.t, words));
      return link;
    }));
    if (!found.length) {
      const none = document.createElement("p");
      none.textContent = `Nothing has all of: ${query}`;
      results.append(none);
    }
    results.firstElementChild.classList.add("chosen");
    results.hidden = false;
  };
  input.addEventListener("focus", load, { once: true });
  input.addEventListener("input", show);
  input.addEventListener("focus", show);

  const close = () => { results.hidden = true; };
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) { close(); } });
  results.addEventListener("click", (event) => { if (event.target.closest("a")) { close(); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      close();
      input.blur();
    }
  });
  input.addEventListener("keydown", (event) => {
    const links = [...results.querySelectorAll("a")];
    const at = links.findIndex((link) => link.classList.contains("chosen"));
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (event.key === "Enter" && links[at] && !results.hidden) {
      links[at].click();
    } else if (links[next]) {
      event.preventDefault();
      links[at].classList.remove("chosen");
      links[next].classList.add("chosen");
      links[next].scrollIntoView({ block: "nearest" });
    }
  });
})();
