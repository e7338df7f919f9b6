// A click on a heading sorts by its column, numbers in descending order; another click reverses the order.
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  const column = th.cellIndex, body = th.closest('table').tBodies[0];
  const by = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const order = (a, b) => {
    const [x, y] = [by(a), by(b)], number = x - y;
    return isNaN(number) ? (isNaN(x) - isNaN(y) || x.localeCompare(y)) : -number;
  };
  const direction = th.dataset.direction = th.dataset.direction === '1' ? '-1' : '1';
  body.append(...[...body.rows].sort((a, b) => direction * order(a, b)));
};
for (const zoom of document.querySelectorAll('input')) zoom.oninput = () => {
  zoom.closest('p').nextElementSibling.firstElementChild.style.width = zoom.value + '%';
};
