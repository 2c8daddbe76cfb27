import { runCli } from './run-cli.ts'

const exitCode = await runCli(process.argv.slice(2), {
  env: process.env, stdout: process.stdout, stderr: process.stderr, now: Date.now
})
// Exits once the output is written: a connection to a service that hangs would keep the process alive for minutes.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)))
