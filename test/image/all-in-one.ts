/** The image that runs everything, as an operator has it: first event, stop, kill, backup, restore, other users. */
import { type Container, type Engine, startContainer, waitUntilReady } from './container-engine.ts'
import { countEvents, logIn, type Printed, readPrinted, sendEvent, tryInside } from './first-session.ts'

export type Report = (what: string, isGood: boolean, more?: string) => void

interface Lab {
  engine: Engine
  image: string
  report: Report
  /** Name of a container or volume of this check. */
  own: (name: string) => string
}

/** What `docker stop` is given; docker's own 10 s are enough on a machine that is not busy. */
const GRACE_SECONDS = 30
const OTHER_USER = '12345'
/** Nothing writable but volumes and the shared memory that every container has, and no rights. */
const LOCKED_DOWN = ['--read-only', '--cap-drop', 'all', '--security-opt', 'no-new-privileges']

export async function checkAllInOne ({ engine, image, report }: Omit<Lab, 'own'>): Promise<void> {
  const names: string[] = []
  const own = (name: string): string => {
    const full = `millrace-check-${process.pid}-${name}`
    names.push(full)
    return full
  }
  const lab: Lab = { engine, image, report, own }
  try {
    await checkCommands(lab)
    const volumes = { data: own('data'), backups: own('backups') }
    await checkLife(lab, volumes)
    await checkRestore(lab, volumes.backups)
    await checkOtherUser(lab)
  } finally {
    for (const name of names) await engine.try('rm', '--force', '--volumes', name)
    for (const name of names) await engine.try('volume', 'rm', '--force', name)
  }
}

async function checkCommands ({ engine, image, report }: Lab): Promise<void> {
  const help = await engine.run('run', '--rm', image, '--help')
  report('run --help prints the commands', help.startsWith('Usage: millrace '), help)
  const version = await engine.run('run', '--rm', image, '--version')
  report(`run --version prints ${version.trim()}`, /^\d+\.\d+\.\d+/.test(version))
}

/** One container from its first start over stops and a kill. */
async function checkLife (lab: Lab, { data, backups }: { data: string, backups: string }): Promise<void> {
  const { engine, image, report, own } = lab
  const flags = [...publish(8000, 8123), '--volume', `${data}:/data`, '--volume', `${backups}:/backups`]
  const startedAt = performance.now()
  const container = await startContainer(engine, { name: own('first'), flags, command: [image] })
  const printed = readPrinted(await waitUntilReady(engine, container))
  report(`ready after ${seconds(startedAt)} s`, true)
  report('it does not run as root', (await container.exec('id', '-u')).trim() === '1000')
  await checkHealth(lab, container)
  report(`the link of its logs logs in (${printed.consoleUrl.replace(/#.*/, '')})`, await logIn(await container.address(8000), printed) === 200)
  await checkEvents(lab, container, printed, ['before the stop'])

  const second = await engine.try('run', '--rm', '--volume', `${data}:/data`, image)
  report('a second container on the same volume is refused', second.code === 1 && second.text.includes('already running on /data, in another container'), second.text)
  const elsewhere = await engine.try('run', '--rm', '--volume', `${data}:/data`, image, 'status', '--once')
  report('a command in a container of its own says where to run it', elsewhere.text.includes('docker exec'), elsewhere.text)
  const status = await container.exec('millrace', 'status', '--once')
  report('exec millrace status: nothing is stuck', status.includes('nothing is stuck'), status)
  const backup = await engine.try('exec', container.name, 'millrace', 'backup', '/backups/first')
  report('exec millrace backup /backups/first', backup.code === 0, backup.text)

  await checkStop(lab, container)
  await engine.run('start', container.name)
  await checkEvents(lab, container, readPrinted(await waitUntilReady(engine, container, 2)), ['before the stop', 'before the kill'])
  await sendEvent(await container.address(8000), printed, 'right before the kill')
  await engine.run('kill', container.name)
  await engine.run('wait', container.name)
  await engine.run('start', container.name)
  const after = readPrinted(await waitUntilReady(engine, container, 3))
  await checkEvents(lab, container, after, ['before the stop', 'before the kill', 'right before the kill', 'after the kill'])
  await checkStop(lab, container)
}

/** A backup of the first container, in a volume of its own, without any right. */
async function checkRestore (lab: Lab, backups: string): Promise<void> {
  const { engine, image, report, own } = lab
  const volumes = ['--volume', `${own('restored')}:/data`, '--volume', `${backups}:/backups`]
  const restored = await engine.try('run', '--rm', ...volumes, image, 'restore', '/backups/first')
  report('run restore /backups/first, into another volume', restored.code === 0, restored.text)
  const container = await startContainer(engine, {
    name: own('second'), flags: [...publish(8000, 8123), ...volumes, ...lockedDown(engine)], command: [image]
  })
  const printed = readPrinted(await waitUntilReady(engine, container))
  report('it starts with --read-only --cap-drop all --security-opt no-new-privileges', true)
  await checkEvents(lab, container, printed, ['before the stop', 'after the restore'])
  const confined = await container.exec('grep', '--max-count=1', '--only-matching', 'the kernel confines the engine', '/data/logs/clickhouse.log')
    .catch(() => 'the kernel or the engine of containers does not confine ClickHouse')
  report(`(${confined.trim()})`, true)
  await checkStop(lab, container)
}

/** As a user that the image does not know, who has no network either. */
async function checkOtherUser (lab: Lab): Promise<void> {
  const { engine, image, report, own } = lab
  const volume = ['--volume', `${own('other')}:/data`]
  const flags = ['--user', OTHER_USER, ...volume, ...lockedDown(engine)]
  const container = await startContainer(engine, { name: own('third'), network: 'none', flags, command: [image] })
  const printed = readPrinted(await waitUntilReady(engine, container))
  report(`it starts with --user ${OTHER_USER} and --network none`, (await container.exec('id', '-u')).trim() === OTHER_USER)
  const found = await tryInside(container, printed, 'from inside')
  report('an event from inside is there once', found.trim() === '1', found)
  await checkStop(lab, container)
  const others = await engine.try('run', '--rm', ...volume, image)
  report('another user on its volume gets the owner in the error', others.code === 1 && others.text.includes(`which belongs to the user ${OTHER_USER}`), others.text)
}

async function checkEvents (
  { report }: Lab, container: Container, printed: Printed, events: readonly string[]
): Promise<void> {
  await sendEvent(await container.address(8000), printed, events.at(-1)!)
  const found = await countEvents(await container.address(8123), printed, events)
  report(`each event is there once: ${events.join(', ')}`, events.every((event) => found[event] === 1), JSON.stringify(found))
}

/** Runs the health check of the image, as the engine does every half minute. */
async function checkHealth ({ engine, image, report }: Lab, container: Container): Promise<void> {
  const format = '{{json .Config.Healthcheck.Test}}'
  const [kind, ...command] = JSON.parse(await engine.run('image', 'inspect', '--format', format, image)) as string[]
  const { code, text } = await engine.try('exec', container.name, ...command)
  report('the health check of the image is content', kind === 'CMD' && code === 0, text)
}

async function checkStop ({ engine, report }: Lab, container: Container): Promise<void> {
  const startedAt = performance.now()
  await engine.run('stop', '--time', String(GRACE_SECONDS), container.name)
  const took = seconds(startedAt)
  const code = (await engine.run('inspect', '--format', '{{.State.ExitCode}}', container.name)).trim()
  const logs = await container.logs()
  const isOrderly = /^Stopped$/m.test(logs.split('Stopping (SIGTERM)').at(-1) ?? '')
  report(`it stopped after ${took} s with code ${code}`, code === '0' && isOrderly, logs)
}

function publish (...ports: readonly number[]): string[] {
  return ports.flatMap((port) => ['--publish', `127.0.0.1::${port}`])
}

/** Podman puts memory on /tmp of a read-only container, and docker does not. */
function lockedDown ({ name }: Engine): string[] {
  return [...LOCKED_DOWN, ...name === 'podman' ? ['--read-only-tmpfs=false'] : []]
}

function seconds (since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1)
}
