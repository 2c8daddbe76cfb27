/** A stylesheet is bundled by importing it, and exports nothing. */
declare module '*.css'
