/* Begins the page. */
Engine.start().then(() => {
    if (Engine.prompt.length > 0)
        Engine.run(Engine.prompt);
    document.getElementById('main').textContent =
        `${Engine.info.name}: ${Engine.prompt.length} tokens, ${Engine.hooks.length} values`;
}).catch(error => {
    document.getElementById('main').textContent = error.message;
});
