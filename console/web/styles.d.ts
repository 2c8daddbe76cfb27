/** A stylesheet is bundled by importing it, and exports nothing. */
declare module '*.css'

/** A sample query is bundled as its text. */
declare module '*.sql' {
  const text: string
  export default text
}
