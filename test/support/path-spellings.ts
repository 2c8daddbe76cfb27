/**
 * Ways to write a path that some server or proxy may take for the same one: slashes, escapes, case, dot segments,
 * delimiters, and what URL parsers make of a backslash.
 */
export function spellPath (path: string): string[] {
  const escape = (text: string): string => [...text].map((each) => `%${each.charCodeAt(0).toString(16)}`).join('')
  const name = path.slice(1)
  const [first = '', ...rest] = name
  return [
    path, `${path}/`, `${path}//`, `/${path}`, `//${path}/`, `${path}/.`, `${path}/./`, `/.${path}`, `/x/..${path}`, `/x/../${path}/`,
    `/flags/..${path}`, `/api/..${path}/`, `/api/.${path}`, `/%2e${path}`, `/x/%2e%2e${path}`, `/x/.%2E${path}/`, `/x%2f..${path}`,
    `/${escape(first)}${rest.join('')}`, `/${escape(name)}`, `/${escape(name).toUpperCase()}`, `/${escape(name)}/`, `/%2f${name}`, `%2f${name}`,
    `/%25${escape(first).slice(1)}${rest.join('')}`, `/${name.toUpperCase()}`, `/${name}%2f`, `/${name}%2F/`,
    `${path}?`, `${path}/?x=1`, `${path}?/../x`, `${path};x`, `${path};`, `${path}/;x`, `${path}#x`, `${path}%23`, `${path}%3f`, `${path}%00`,
    `${path}%20`, `${path}%0a`, `${path}.`, `/\\${name}`, `/x\\..${path}`, `/x\\..\\${name}`, `/x/..\\${name}/`, `/x%5c..%5c${name}`, `/.\\${name}`,
    `${path}\\`, `http://localhost${path}`, `http://localhost${path}/`, `http:${path}`
  ]
}
