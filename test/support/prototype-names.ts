/** Names that every object or function of JavaScript has, and some that the language looks for. */
export const PROTOTYPE_NAMES = [...new Set([...[Object.prototype, Function.prototype].flatMap((each) => Object.getOwnPropertyNames(each)), 'prototype', 'then', 'toJSON'])]
