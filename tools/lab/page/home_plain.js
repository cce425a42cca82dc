'use strict';
// In place of the picture for a model that it cannot draw yet: why, and what the other rooms show of it.
const HomePlain = (() => {
    const { h, button } = Dom;
    const ROOMS = [['predict', 'What comes next', 'The likeliest next tokens, draws, and how well the text was foreseen.'], ['attention', 'Who looks at whom', 'The patterns of all heads, and every score taken apart.'],
        ['inside', 'What each layer adds', 'What the model would say after every half layer, and which parts speak for it.'], ['experiment', 'What makes the difference', 'Parts taken out, values patched between two texts, steering.']];

    const why = () => `The lab has no picture of a ${Engine.undrawn} yet: it would have to show what other models lack. The other rooms show this model with every number.`;

    function mount(root) {
        root.append(h('section.card', null, h('h3', null, Engine.info.name || Engine.info.arch), h('p', null, why()), h('div.try', null, ROOMS.filter(([id]) => Engine.info.layers || id === 'predict').map(([view, q, a], n) =>
            button([h('i', null, n + 1), h('span', null, h('b', null, q), h('span', null, a))], () => App.set({ view }))))));
    }

    return { id: 'home', title: 'Look inside', mount, update() {}, HELP: [] };
})();
