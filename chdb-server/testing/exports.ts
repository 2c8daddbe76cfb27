/** A server for the tests of other programs, in a folder of its own. */
export { readBlocks } from './read-blocks.ts'
export type { RecordedRequest } from './record-requests.ts'
export * from './start-test-server.ts'
