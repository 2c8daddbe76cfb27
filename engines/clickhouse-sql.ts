/**
 * ClickHouse's SQL as text: split into tokens, and strings and names written and read. The one tokenizer of Millrace is
 * that of the package chdb-server, in a file that imports nothing.
 */
// eslint-disable-next-line no-restricted-imports -- a package of its own beneath everything, like one from npm
export * from '../embedded/clickhouse/statement/sql-lexer.ts'
