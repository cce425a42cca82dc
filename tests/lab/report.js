/* Tests of the lab's parts, one after the other, told in TAP. */
'use strict';
let number = 0, failures = 0, last = Promise.resolve();

/* Runs `body` when the tests before it have ended. What it throws fails this test and stops no other. With
 * MGPT_TEST_ONLY only the tests are run whose names this regular expression matches. */
function test(name, body) {
    if (!new RegExp(process.env.MGPT_TEST_ONLY || '').test(name))
        return last;
    last = last.then(async () => {
        number++;
        try {
            await body();
            console.log(`ok ${number} ${name}`);
        } catch (error) {
            failures++;
            console.log(`not ok ${number} ${name}\n#   ${error.stack.split('\n').join('\n#   ')}`);
        }
    });
    return last;
}

/* The plan, when all have ended; gives the exit code. */
async function finish() {
    await last;
    console.log(`1..${number}`);
    return failures ? 1 : 0;
}

module.exports = {test, finish};
