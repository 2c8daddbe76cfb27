import { type Command, InvalidArgumentError } from 'commander'
import { isRepeatable } from './read-arguments.ts'

type Read = (text: string, before: unknown) => unknown

/**
 * Gives every option and argument of all commands the rules that Commander leaves to each of them:
 *
 * - A value is not empty. An empty one is nearly always a shell variable that is not set, and would mean everything, or
 *   the default.
 * - An option is given once, unless it collects its values. Of several, Commander takes the last without a word.
 *
 * Call it after all commands are added, once for each command line.
 */
export function checkOptions (command: Command): void {
  for (const option of command.options) {
    // A flag may be repeated: it says the same again.
    if (!option.required && !option.optional) continue
    const read = option.parseArg as Read | undefined
    let isGiven = false
    option.argParser((text: string, before: unknown) => {
      refuseEmpty(text)
      if (isGiven && !isRepeatable(read)) throw new InvalidArgumentError('The option is given twice; give it once.')
      isGiven = true
      return read === undefined ? text : read(text, before)
    })
  }
  for (const argument of command.registeredArguments) {
    const read = argument.parseArg as Read | undefined
    argument.argParser((text: string, before: unknown) => {
      refuseEmpty(text)
      return read === undefined ? text : read(text, before)
    })
  }
  for (const each of command.commands) checkOptions(each)
}

/**
 * Makes `help` of every group refuse a name that it does not have, as the group does; Commander's own shows the general
 * help for it, as if it were what was asked for.
 *
 * Call it after all commands are added.
 */
export function checkHelp (group: Command): void {
  if (group.commands.length === 0) return
  for (const each of group.commands) checkHelp(each)
  group.helpCommand(false)
  group.command('help').description('display help for command').argument('[command]', 'name of a command').action((name?: string) => {
    const found = name === undefined ? group : group.commands.find((each) => each.name() === name)
    if (found === undefined) group.error(`error: unknown command '${name}'`, { code: 'commander.unknownCommand' })
    found.help()
  })
}

function refuseEmpty (text: string): void {
  if (text.trim() === '') throw new InvalidArgumentError('It is empty; give a value.')
}
