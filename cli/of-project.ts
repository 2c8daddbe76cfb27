import type { Command } from 'commander'
import { readId } from './read-arguments.ts'
import { JSON_OPTION, type Output } from './terminal-output.ts'

export interface OfProject extends Output { project: number }

/** A command on a project. */
export function addOfProject (group: Command, name: string, description: string): Command {
  return group.command(name).description(description).option('--project <id>', 'id of the project', readId, 1).option(...JSON_OPTION)
}

/** A command on one object of a project. */
export function addOfOne (group: Command, name: string, description: string): Command {
  return addOfProject(group, name, description).argument('<id>', 'id from "list"', readId)
}
