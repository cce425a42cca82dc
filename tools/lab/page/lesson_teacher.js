'use strict';
// The page for teachers: what each lesson is for, how long it takes, the answer of its task, two plans, and what to print.
const LessonTeacher = (() => {
    const { h, button, table } = Dom;

    // [lesson, minutes with its task, goal, answer]
    const PLAN = [
        ['bigram', 6, 'Guessing the next letter is counting what came after it.', 'For example the one line “na na na n”: n is followed by a three times out of four.'],
        ['average', 5, 'A matrix of weights mixes rows; a triangle lets each row see what came before.', 'A last score of 1.1 (exactly ln 3).'],
        ['similarity', 6, 'A dot product says how far two arrows point the same way.', 'cat = (1, 0.4): the product is 0, the length 1.08.'],
        ['temperature', 5, 'Softmax turns scores into shares; a temperature makes them sharper or more even.', 'τ = 2.08 (1 / ln φ, with the golden ratio φ).'],
        ['scale', 6, 'Products of long vectors spread by √d, so they are divided by it.', 'd = 64, then the box “divide”.'],
        ['mask', 4, 'What comes later has the share 0, exactly.', 'Hide row 2, column 0.'],
        ['projections', 7, 'The same row asks with one matrix and answers with another, so attention is not symmetric: who looks is not who is looked at.', 'W_Q negated, W_K as it is.'],
        ['head', 6, 'Scores, shares and mixed values are one head.', 'g = 1.95.'],
        ['heads', 6, 'Heads look at different things at once.', 'Head 3, row 4: 1.58 nats.'],
        ['places', 7, 'Turned queries and keys know how far apart two tokens are, not where.', 'Query 9, key 6: three places apart, as 5 and 2.'],
        ['block', 8, 'Parts add to a stream; without it rows soon become alike.', 'Stream off, then one layer more at a time: the first number whose least cosine passes 0.99.'],
        ['cache', 6, 'Keys and values of what was read never change, so they are kept.', '136 = 1 + 2 + … + 16.'],
        ['step', 6, 'Ten lines compute a whole step; in one of them tokens meet.', '“attend(p);”, the line that reads the rows of other tokens.'],
        ['training', 8, 'Training turns numbers a little against the slope of the loss, many times.', 'A rate of 10 gives 0.7399 after 60 steps.'],
    ];
    const minutes = (ids) => PLAN.filter(([id]) => ids.includes(id)).reduce((sum, p) => sum + p[1], 0);
    const all = PLAN.map((p) => p[0]), first = all.slice(0, 6), second = ['projections', 'head', 'heads', 'cache'];

    // The tasks alone, for paper.
    function printTasks() {
        document.documentElement.classList.add('tasks-only');
        print();
        document.documentElement.classList.remove('tasks-only');
    }

    // link(id): the way to a lesson.
    function mount(root, link) {
        root.append(h('p', null, `All ${all.length} lessons take about ${minutes(all)} minutes with their tasks: a double lesson. One of 45 minutes has room for lessons 1 to 6 (${minutes(first)} minutes), or for 7, 8, 9 and 12 (${minutes(second)} minutes) in a class that knows vectors. No account, no network: pupils open the file, and what they have solved is in the address of their page, which they can send you.`),
            h('p', null, 'Before the first lesson: type a name in the picture and let the class guess the next letter. After the last: let each change one letter there and explain what moved.'),
            h('div.scroll', null, table(null, ['lesson', 'minutes', 'goal'], PLAN.map(([id, n, goal]) => [link(id), n, goal]), '.plan')),
            h('details', null, h('summary', null, 'Answers'), h('ol', null, PLAN.map(([, , , answer]) => h('li', null, Dom.math(answer))))),
            h('p', null, 'To print: the tasks alone, by the button; the whole room, about 20 pages, by the browser’s own print. Each figure can be saved as SVG from its menu. At a projector, n and p go to the next lesson and back.'),
            h('p', null, button('Print the tasks', printTasks, { id: 'print-tasks' })));
    }

    return { mount, PLAN };
})();
