/** Writes small files of places, in the format of MaxMind (MMDB 2.0), from networks and their records. */
const MARKER = Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')
const SEPARATOR = Buffer.alloc(16)

type Value = string | number | readonly Value[] | { readonly [key: string]: Value }

/** A child of the tree: another node, the place of a record in the data, or nothing. */
type Child = Node | number | null
type Node = [Child, Child]

/** @param networks  Records by network: `81.2.69.0/24`, or `2001:db8::/32` spelt out in groups. */
export function buildMmdb (networks: Readonly<Record<string, Value>>): Buffer {
  const root: Node = [null, null]
  const data: Buffer[] = []
  let size = 0
  for (const [network, record] of Object.entries(networks)) {
    insert(root, bitsOf(network), size)
    const bytes = encode(record)
    data.push(bytes)
    size += bytes.length
  }
  const nodes = listNodes(root)
  const tree = Buffer.alloc(nodes.length * 6)
  nodes.forEach((node, index) => node.forEach((child, side) => {
    const value = child === null ? nodes.length : typeof child === 'number' ? nodes.length + 16 + child : nodes.indexOf(child)
    tree.writeUIntBE(value, index * 6 + side * 3, 3)
  }))
  const metadata = encode({
    node_count: nodes.length, record_size: 24, ip_version: 6, database_type: 'Test', languages: ['en'],
    binary_format_major_version: 2, binary_format_minor_version: 0, build_epoch: 1_700_000_000, description: { en: 'test' }
  })
  return Buffer.concat([tree, SEPARATOR, ...data, MARKER, metadata])
}

function bitsOf (network: string): string {
  const [address = '', length = '0'] = network.split('/')
  if (address.includes('.')) {
    const bits = address.split('.').map((part) => Number(part).toString(2).padStart(8, '0')).join('')
    return '0'.repeat(96) + bits.slice(0, Number(length))
  }
  const groups = address.split(':').filter((group) => group !== '').map((group) => parseInt(group, 16).toString(2).padStart(16, '0'))
  return groups.join('').padEnd(128, '0').slice(0, Number(length))
}

function insert (root: Node, bits: string, record: number): void {
  let node = root
  for (const bit of bits.slice(0, -1)) {
    const side = Number(bit) as 0 | 1
    const next = node[side]
    if (Array.isArray(next)) node = next
    else node = (node[side] = [null, null])
  }
  node[Number(bits.at(-1)) as 0 | 1] = record
}

function listNodes (root: Node): Node[] {
  const nodes = [root]
  for (const node of nodes) for (const child of node) if (Array.isArray(child)) nodes.push(child)
  return nodes
}

function encode (value: Value): Buffer {
  if (typeof value === 'string') return Buffer.concat([control(2, Buffer.byteLength(value)), Buffer.from(value)])
  if (typeof value === 'number') return Number.isInteger(value) && value >= 0 ? encodeUInt(value) : encodeDouble(value)
  if (Array.isArray(value)) {
    const items = (value as readonly Value[]).map(encode)
    return Buffer.concat([Buffer.from([value.length, 4]), ...items])
  }
  const entries = Object.entries(value)
  return Buffer.concat([control(7, entries.length), ...entries.flatMap(([key, inner]) => [encode(key), encode(inner)])])
}

function control (type: number, size: number): Buffer {
  return size < 29 ? Buffer.from([type << 5 | size]) : Buffer.from([type << 5 | 29, size - 29])
}

function encodeUInt (value: number): Buffer {
  const bytes = Buffer.alloc(5, type(6, 4))
  bytes.writeUInt32BE(value, 1)
  return bytes
}

function encodeDouble (value: number): Buffer {
  const bytes = Buffer.alloc(9, type(3, 8))
  bytes.writeDoubleBE(value, 1)
  return bytes
}

function type (number: number, size: number): number {
  return number << 5 | size
}
