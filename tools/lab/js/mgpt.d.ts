/** mgpt for JavaScript: GGUF models with the same bits as the C program. Every failure is an Error with one line. */

/** What include/mgpt.h says of a model (mgpt_info): n_vocab, n_tokens, n_ctx, n_layer, n_head, bos (-1: none), ... */
export interface Info {
    [name: string]: number | string;
}

/** A value inside the model by TransformerLens' name; 0 in dims is the number of tokens. */
export interface Hook {
    name: string;
    point: number;
    /** -1 outside the layers */
    layer: number;
    dims: number[];
}

/** What a tap sees: row i is of position pos + i; of attention scores and patterns, row i is head i of the query at pos.
 * The rows are the engine's own memory during the call: the model goes on with what is written there. */
export interface Tapped {
    name: string;
    layer: number;
    pos: number;
    rows: Float32Array[];
}

export interface Settings {
    /** 0.8; 0: the likeliest token */
    temperature?: number;
    /** 0: all */
    topK?: number;
    topP?: number;
    minP?: number;
    /** 64 bits, as mgpt generate --seed */
    seed?: number | bigint | string;
    /** the number of the text among those of mgpt generate --samples, from 0 */
    sample?: number;
}

export class Model {
    /** Opens the bytes of a GGUF file, which are copied. */
    static open(bytes: Uint8Array | ArrayBuffer): Promise<Model>;
    static fetch(url: string | URL): Promise<Model>;
    readonly info: Info;
    /** All values that the model has, in the order of the pass. */
    readonly hooks: Hook[];
    /** The hooks that names with * and ? mean, with commas between them. */
    find(names: string): Hook[];
    /** special: with BOS or EOS if the file asks for them (true). parse: names of control tokens become these (false). */
    encode(text: string, options?: {special?: boolean; parse?: boolean}): Int32Array;
    /** What mgpt generate begins with: the text's tokens, or BOS. */
    prompt(text: string): Int32Array;
    decode(tokens: Iterable<number>): string;
    /** Decodes token by token: put returns the characters that are complete, end what is left. */
    decoder(): {put(token: number): string; end(): string};
    /** The bytes of a token; its text in the vocabulary; whether it ends a text. */
    piece(token: number): Uint8Array;
    tokenText(token: number): string;
    isEnd(token: number): boolean;
    /** kv: the type of the cache; auto is that of the program. */
    session(options?: {nCtx?: number; kv?: 'auto' | 'f32' | 'f16' | 'q8_0'}): Session;
    /** Pieces of a text after the prompt, those of mgpt generate with these settings; at most n tokens. */
    generate(prompt?: string | Iterable<number>, settings?: Settings & {n?: number}): Generator<string>;
}

export class Session {
    readonly model: Model;
    readonly pos: number;
    readonly nCtx: number;
    readonly tokens: Int32Array;
    /** After the last token: a copy of n_vocab numbers; null: nothing has run yet, or the session was rewound. */
    readonly logits: Float32Array | null;
    /** Runs tokens, or a text without BOS, after those that the session has. */
    feed(tokens: Iterable<number> | string): void;
    /** Runs a token; the logits after it. */
    step(token: number): Float32Array;
    /** Forgets the tokens from position pos on. */
    rewind(pos: number): void;
    /** Calls fn with the values of these hooks in every run; null ends that. What fn throws stops the run and comes out of it. */
    tap(names: string, fn: (value: Tapped) => void): void;
    tap(names: null): void;
    /** Runs tokens and returns all values of these hooks: attention as [heads, tokens, positions], others as in `dims`. */
    trace(tokens: Iterable<number> | string, names?: string): {[name: string]: {dims: number[]; data: Float32Array}};
    fork(): Session;
    free(): void;
}

/** Draws what mgpt generate draws, in order. */
export class Sampler {
    constructor(settings?: Settings);
    draw(session: Session): number;
}
