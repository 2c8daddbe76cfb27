import { runCli } from './run-cli.ts'

const exitCode = await runCli(process.argv.slice(2), {
  env: process.env, stdout: process.stdout, stderr: process.stderr, now: Date.now
})
// A connection to a service that hangs would keep the process for minutes. What was written goes out first.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)))
