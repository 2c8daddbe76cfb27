/** Formulas of series, such as `A / B`: read once, computed for each point. */
import jsep, { type Expression } from 'jsep'

/** Computes a formula of values of series; null where one that it needs is null, or a division is by zero. */
export type Compute = (values: ReadonlyArray<number | null>) => number | null

const EXPECTED = 'A formula has numbers, letters of series, + - * / and parentheses.'

/** Fields of the nodes that a formula may have. */
interface Node { left: Expression, right: Expression, argument: Expression }

const OPERATORS: Readonly<Record<string, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b, '-': (a, b) => a - b, '*': (a, b) => a * b, '/': (a, b) => a / b
}

/**
 * @param text    Numbers, letters of series (A is the first one), + - * / and parentheses.
 * @param series  How many series there are.
 * @throws {Error} that says what is not understood.
 */
export function compileFormula (text: string, series: number): Compute {
  const compute = compileNode(parse(text), series)
  return (values) => {
    const value = compute(values)
    return value !== null && Number.isFinite(value) ? value : null
  }
}

function parse (text: string): Expression {
  try {
    return jsep(text)
  } catch (cause) {
    throw new Error(`The formula cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

function compileNode (node: Expression, series: number): Compute {
  const { type, operator, name, value, left, right, argument }: Partial<Node> & Expression = node
  if (type === 'Literal' && typeof value === 'number') return () => value
  if (type === 'Identifier' && typeof name === 'string' && /^[A-Z]$/.test(name)) {
    const index = name.charCodeAt(0) - 65
    if (index < series) return (values) => values[index] ?? null
    throw new Error(`There is no series ${name}: a letter stands for a series, A for the first one.`)
  }
  if (type === 'UnaryExpression' && operator === '-' && argument !== undefined) {
    const of = compileNode(argument, series)
    return (values) => negate(of(values))
  }
  const apply = type === 'BinaryExpression' ? OPERATORS[String(operator)] : undefined
  if (apply === undefined || left === undefined || right === undefined) throw new Error(EXPECTED)
  const [one, other] = [compileNode(left, series), compileNode(right, series)]
  return (values) => {
    const [a, b] = [one(values), other(values)]
    return a === null || b === null ? null : apply(a, b)
  }
}

function negate (value: number | null): number | null {
  return value === null ? null : -value
}
