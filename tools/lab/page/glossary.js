'use strict';
// Words of the field, said in one sentence each. Where a page's text uses one, it is underlined and
// explained when it is pointed at or reached by the keyboard. All rooms use this table.
const Glossary = (() => {
    const TERMS = {
        'residual stream': 'One row of numbers for each token. Every part of the model reads from it and adds to it.',
        'KV cache': 'The keys and values of all tokens so far. They are kept, so a new token costs one row and not the whole text.',
        'logit lens': 'What the model would say if it stopped here: the head applied to the stream half way.',
        'layer norm': 'Scales each row to the same length before a part reads it.',
        'soft cap': 'Bends numbers so that they stay below a limit.',
        'causal mask': 'Later tokens are hidden from earlier ones: a text is read from its beginning, and the model must not see what it has to guess.',
        KL: 'How far one list of probabilities is from another, in nats: 0 when they are equal.',
        induction: 'Looking at what followed the same token earlier in the text: what came once may come again.',
        attention: 'The part in which each token looks back at earlier ones and takes some of what they offer.',
        MLP: 'The part in which each token works for itself: many small detectors, and what each adds when it fires.',
        logit: 'The score of one candidate for the next token. Softmax turns all of them into probabilities.',
        surprisal: 'Minus the logarithm of the probability that the model gave to what came: 0 for what was certain.',
        nats: 'The unit of surprisal with natural logarithms: 0.69 nats is one bit.',
        perplexity: 'e to the average surprisal: between how many equally likely tokens the model was torn.',
        entropy: 'How undecided a list of shares is: 0 when one has everything, the logarithm of their number when all are equal.',
        residual: 'Short for the residual stream: one row of numbers for each token that every part adds to.',
        softmax: 'Makes shares of numbers: e to the power of each, divided by the sum of all.',
        query: 'What a token is looking for: a row of numbers that is compared with the keys.',
        queries: 'What tokens are looking for: rows of numbers that are compared with the keys.',
        key: 'What a token offers to those who look: it is compared with queries.',
        keys: 'What tokens offer to those who look: they are compared with queries.',
        value: 'What a token passes on to those who look at it.',
        head: 'One of several independent lookers in a layer, each with queries, keys and values of its own.',
        rank: 'The place in the list when all candidates are sorted, the likeliest first.',
        neuron: 'One detector of the MLP: a product with a row of weights, and a function that keeps what is large.',
        norm: 'Scales a row to a fixed length; or, of a vector, its length.',
        embedding: 'The row of a table that belongs to a token or a position: the numbers with which its column begins.',
        ablate: 'To take a part out, by setting what it gives to zero or to its mean.',
        temperature: 'Divides the logits before softmax: below 1 the likeliest win more, above 1 less.',
        token: 'A piece of text with a number: a letter, part of a word, or a mark such as the start.',
        tokens: 'Pieces of text with numbers: letters, parts of words, or marks such as the start.',
        attribution: 'A logit taken apart into what each part of the model added to it.',
        hook: 'A named point of the model at which values can be read and changed.',
        'top-k': 'Only the k likeliest tokens can be drawn.',
        'top-p': 'Only the likeliest tokens that together have probability p can be drawn.',
    };
    const PATTERN = new RegExp(`\\b(${Object.keys(TERMS).sort((a, b) => b.length - a.length).join('|')})\\b`, 'i');
    const PLAIN = new Map(Object.keys(TERMS).map((t) => [t.toLowerCase(), t]));

    let tip = null;

    const hide = () => { tip.hidden = true; };

    function show(el) {
        tip.textContent = TERMS[el.dataset.term];
        tip.hidden = false;
        const r = el.getBoundingClientRect(), w = tip.offsetWidth, below = r.bottom + 6 + tip.offsetHeight < innerHeight;
        tip.style.setProperty('left', `${Math.max(8, Math.min(innerWidth - w - 8, r.left))}px`);
        tip.style.setProperty('top', `${below ? r.bottom + 6 : r.top - tip.offsetHeight - 6}px`);
    }

    const describe = (word, name) => Dom.h('dfn', { tabindex: 0, 'data-term': name, 'aria-describedby': 'tip', on: {
        pointerenter: (e) => show(e.target), pointerleave: hide, focus: (e) => show(e.target), blur: hide, keydown: (e) => e.key === 'Escape' && hide() } }, word);

    // A text as nodes. The first use of each term is explained. used: terms that are explained already.
    function text(string, used = new Set()) {
        if (!tip) document.body.append(tip = Dom.h('div#tip', { role: 'tooltip', hidden: true }));
        return String(string).split(PATTERN).map((part, i) => { // every other one is a term
            const name = PLAIN.get(part.toLowerCase()), first = i % 2 && !used.has(name);
            if (first) used.add(name);
            return first ? describe(part, name) : part;
        });
    }

    return { text, TERMS };
})();
