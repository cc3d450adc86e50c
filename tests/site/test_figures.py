"""The figures on their pages: each has a picture, and each of its controls changes the picture."""

from __future__ import annotations

import pytest
from browsing import Tab, pages_with

PAGES = pages_with('class="gnomon-figure"')

# Everything that a reader sees of a figure, but for its controls.
PICTURE = """figure => {
  const parts = figure.querySelector('.gnomon-parts');
  const cells = [...parts.querySelectorAll('canvas')].map(canvas => canvas.toDataURL());
  return [parts.innerHTML, ...cells, figure.querySelector('.gnomon-said').textContent].join('\\n');
}"""

# The other settings of a control. The controls are native inputs, so that each has a value.
OTHERS = r"""input => {
  if (input.type === 'checkbox') return [!input.checked];
  if (input.tagName === 'SELECT')
    return [...input.options].map(option => option.value).filter(value => value !== input.value);
  if (input.type === 'range')
    return [input.min, input.max, (Number(input.min) + Number(input.max)) / 2]
        .map(String).filter(value => value !== input.value);
  if (input.tagName === 'TEXTAREA')  // a config.json: another value of each of its numbers
    return [...input.value.matchAll(/(: ?)(\d+(\.\d+)?)/g)].map(match =>
        input.value.slice(0, match.index) + match[1] + 2 * Number(match[2]) +
        input.value.slice(match.index + match[0].length));
  return [input.value.split(' ').reverse().join(' '), input.value + ' x', 'a b c a'];
}"""

SET = """(input, value) => {
  if (input.type === 'checkbox') {
    input.checked = value;
  } else {
    input.value = value;
  }
  for (const name of ['input', 'change']) input.dispatchEvent(new Event(name, {bubbles: true}));
}"""

IS_TEXT = "input => input.tagName === 'TEXTAREA' || input.type === 'text'"

SETTLED = """figure => new Promise(resolve => {
  let version = figure.dataset.version, still = 0;
  const look = () => {
    still = figure.dataset.version === version ? still + 1 : 0;
    version = figure.dataset.version;
    if (still >= 6) resolve(Number(version)); else setTimeout(look, 25);
  };
  look();
})"""


def test_there_are_figures():
    assert len([page for page in PAGES if page.startswith("book/")]) == 9  # chapters, and the reader
    assert len([page for page in PAGES if page.startswith("zh/book/")]) == 9


@pytest.mark.parametrize("page", PAGES)
def test_figures(browser, address, page):
    tab = Tab(browser)
    found = tab.open(f"{address}/{page}")
    for figure in tab.page.query_selector_all("figure.gnomon-figure"):
        found += [f"{figure.get_attribute('data-figure')}: {one}" for one in problems(figure)]
    found += tab.problems
    tab.page.close()
    assert not found, "\n".join(found)


def problems(figure) -> list[str]:
    if figure.get_attribute("data-state") != "ready":
        return [figure.eval_on_selector(".gnomon-error", "e => e.textContent")]
    found = []
    if figure.get_attribute("data-holds") != "true":
        found.append("its claim does not hold at the start")
    start = figure.evaluate(PICTURE)
    buttons = figure.query_selector_all(".gnomon-buttons button")
    for control in figure.query_selector_all("[data-control]"):
        name = control.get_attribute("data-control")
        if not changes(figure, control) and not changes_for_some_choice(figure, control):
            found.append(f"the control {name} changes nothing")
        buttons[-1].click()  # as at the start
        figure.evaluate(SETTLED)
    if figure.evaluate(PICTURE) != start:
        found.append("the last button does not lead back to the start")
    if len(buttons) > 1:
        buttons[0].click()
        figure.evaluate(SETTLED)
        if figure.get_attribute("data-holds") != "false":
            found.append("its claim holds although it is broken")
    return found


def changes(figure, control) -> bool:
    """Whether some setting of a control changes the picture."""
    before = figure.evaluate(PICTURE)
    version = figure.evaluate(SETTLED)
    for value in control.evaluate(OTHERS):
        control.evaluate(SET, value)
        drawn = figure.evaluate(SETTLED)
        if drawn <= version:
            return False
        version = drawn
        if figure.get_attribute("data-state") != "ready":
            # A reader may enter a text that is refused; the other controls have valid values.
            assert control.evaluate(IS_TEXT), f"{control.get_attribute('data-control')} at {value}"
        elif figure.evaluate(PICTURE) != before:
            return True
    return False


def changes_for_some_choice(figure, control) -> bool:
    """The same with another option of a choice: some settings matter for one option only."""
    for choice in figure.query_selector_all("select[data-control]"):
        start = choice.input_value()
        for value in choice.evaluate(OTHERS):
            choice.evaluate(SET, value)
            if changes(figure, control):
                return True
        choice.evaluate(SET, start)
    return False


def test_the_keyboard_moves_a_slider(browser, address):
    tab = Tab(browser)
    for page in PAGES:
        tab.open(f"{address}/{page}")
        slider = tab.page.query_selector("figure input[type=range]")
        if slider:
            slider.focus()
            before = slider.input_value()
            tab.page.keyboard.press("ArrowRight")
            tab.page.keyboard.press("ArrowLeft")
            tab.page.keyboard.press("ArrowLeft")
            tab.page.keyboard.press("ArrowRight")
            tab.page.keyboard.press("Home")
            tab.page.keyboard.press("ArrowRight")
            assert slider.input_value() != before or slider.get_attribute("min") != before
            break
    else:
        pytest.fail("no figure has a slider")
    tab.page.close()


def test_pages_stay_readable_without_javascript(browser, address):
    """The picture and the caption are there, and the blocks of code open."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{PAGES[0]}")
    figure = page.locator("figure.gnomon-figure").first
    assert figure.locator("figcaption").inner_text().strip()
    picture = figure.locator("img.gnomon-figure-picture")
    assert picture.count() == 1 and picture.get_attribute("alt")
    context.close()
