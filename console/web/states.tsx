import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ApiError } from './api-client.ts'
import { formatAgo, formatTime, formatUtc, formatZoned, showNumber, showText, type TypedNumber, UNKNOWN } from './format.ts'
import { returnFocus, useStaysInSight } from './keep-focus.ts'
import type { Loaded } from './load.ts'
import { loginAwaited } from './session.ts'

/** Delay before a loading notice, ms. */
const NOTICE_MS = 300

/** @param props.what  Name of the fetched value, for the notice. */
export function Loading ({ what }: { what: string }) {
  return <LateNotice afterMs={NOTICE_MS} text={`Loading ${what.toLowerCase()} …`} />
}

/** A notice that comes when something takes long. */
export function LateNotice ({ afterMs, text }: { afterMs: number, text: string }) {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), afterMs)
    return () => clearTimeout(timer)
  }, [])
  return <p class='hint' role='status'>{isLate ? text : ''}</p>
}

/** Why something is not shown, and what to do. */
export function Failed ({ error, onRetry }: { error: ApiError, onRetry: () => void }) {
  return (
    <div class='failed' role='alert'>
      <p><strong>{error.message}</strong> <span class='hint'>{error.code}</span></p>
      <button type='button' onClick={onRetry}>Try again</button>
    </div>
  )
}

export function Empty ({ children }: { children: ComponentChildren }) {
  return <div class='empty'>{children}</div>
}

/** Events that a definition names and the project never received, if there are any. */
export function UnknownEvents ({ names }: { names: readonly string[] }) {
  return names.length > 0 && <Empty>No event of this project ever had the name {names.map((name) => `“${showText(name, 100)}”`).join(', ')}. Check the spelling.</Empty>
}

/**
 * One of the states of something fetched: loading, failed, or what `children` makes of it. What was fetched before stays
 * when a later fetch fails, below the reason.
 */
export function Show<T> (
  { of, what, children }: { of: Loaded<T>, what: string, children: (value: T) => ComponentChildren }
) {
  const { value, error, reload } = of
  return (
    <>
      {error?.status === 404 && <p class='failed' role='alert'><strong>{what}: not found.</strong> It was deleted, or the address is wrong.</p>}
      {error !== undefined && error.status !== 404 && <Failed error={error} onRetry={reload} />}
      {value !== undefined ? children(value) : error === undefined && <Loading what={what} />}
    </>
  )
}

/**
 * A button that fetches something again. While that goes on it does nothing, but stays one: a button that is disabled
 * loses the focus.
 */
export function Again ({ of: { isLoading, reload }, children = 'Ask again' }: { of: Pick<Loaded<unknown>, 'isLoading' | 'reload'>, children?: ComponentChildren }) {
  const button = useStaysInSight(isLoading)
  return <button ref={button} type='button' aria-disabled={isLoading} onClick={() => { if (!isLoading) reload() }}>{children}</button>
}

interface SelectProps {
  label: string
  value: string | number
  /** Values, and what they are called. */
  options: readonly (readonly [value: string | number, name: string])[]
  disabled?: boolean
  onChange: (value: string) => void
}

/** The label of a field; one that begins with `-` only screen readers see. */
export function Label ({ text }: { text: string }) {
  return text.startsWith('-') ? <span class='hidden'>{text.slice(1)} </span> : <>{text} </>
}

/** A choice of one. */
export function Select ({ label, value, options, disabled = false, onChange }: SelectProps) {
  return (
    <label>
      <Label text={label} />
      <select value={String(value)} disabled={disabled} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([each, name]) => <option key={each} value={String(each)}>{name}</option>)}
      </select>
    </label>
  )
}

interface NumberFieldProps {
  label: string
  value: number
  least?: number
  most?: number
  /** Default: any. */
  step?: number
  /** Such as `%`, behind the field. */
  children?: ComponentChildren
  onChange: (value: number) => void
}

/**
 * A number that is required. Its text stays as typed: written back, the `0.` of `0.5` would become `0`. A text that is
 * not a number, such as an empty one, changes nothing, and its form is not sent.
 */
export function NumberField ({ label, value, least, most, step, children, onChange }: NumberFieldProps) {
  const [typed, setTyped] = useState<TypedNumber>()
  return (
    <label>
      <Label text={label} />
      <input
        type='number' required min={least} max={most} step={step ?? 'any'} value={showNumber(value, typed)}
        onInput={({ currentTarget: { value: text, valueAsNumber: next } }) => {
          setTyped({ text, value: Number.isNaN(next) ? value : next })
          if (!Number.isNaN(next)) onChange(next)
        }}
      />
      {children}
    </label>
  )
}

interface SelectDaysProps { label: string, value: number, of?: readonly number[], disabled?: boolean, onChange: (days: number) => void }

/** Selects a number of days until now. */
export function SelectDays ({ of = [1, 7, 30, 90, 365], onChange, ...props }: SelectDaysProps) {
  return <Select {...props} options={of.map((each) => [each, each === 1 ? 'the last day' : `${each} days`] as const)} onChange={(value) => onChange(Number(value))} />
}

export function Checkbox ({ label, isOn, onChange }: { label: string, isOn: boolean, onChange: (isOn: boolean) => void }) {
  return <label class='choice'><input type='checkbox' checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}</label>
}

/** A choice of one, with what each means. */
export function Choices (
  { legend, of, chosen, onChange }: { legend: string, of: Readonly<Record<string, string>>, chosen: string, onChange: (chosen: string) => void }
) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      {Object.entries(of).map(([each, meaning]) => (
        <label key={each} class='choice'>
          <input type='radio' name={legend} value={each} checked={chosen === each} onChange={() => onChange(each)} />
          <span><strong>{each}</strong>: {meaning}</span>
        </label>
      ))}
    </fieldset>
  )
}

/** The columns of a table: `#` marks one of numbers, `-` one whose title only screen readers see. */
export type Columns = readonly (string | false)[]

/** A table that scrolls by itself. */
export function Table ({ label, head, class: style, children }: {
  label: string, head: Columns, class?: string | undefined, children: ComponentChildren
}) {
  return (
    <div class='scroll' role='region' aria-label={label} tabIndex={0}>
      <table class={style}>
        <thead>
          <tr>
            {head.map((title) => title !== false && (
              <th key={title} scope='col' class={title.startsWith('#') ? 'number' : undefined}>
                {title.startsWith('-') ? <span class='hidden'>{title.slice(1)}</span> : title.replace(/^#/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** The numbers of a picture, which open where there is no room for both. */
export function Numbers ({ isFolded, children }: { isFolded: boolean, children: ComponentChildren }) {
  return isFolded ? <details><summary>The numbers</summary>{children}</details> : <>{children}</>
}

/** Facts by name; those that are unknown are left out. */
export function Facts ({ of }: { of: Readonly<Record<string, ComponentChildren>> }) {
  const known = Object.entries(of).filter(([, fact]) => fact != null && fact !== false && fact !== '')
  return <dl class='facts'>{known.map(([name, fact]) => <div key={name}><dt>{name}</dt><dd>{fact}</dd></div>)}</dl>
}

/** A time in the zone that is shown, and in UTC for who points at it. @param props.isZoned  With the name of the zone. */
export function Time ({ at, isZoned = false, digits = 0 }: { at: string | null, isZoned?: boolean, digits?: 0 | 3 }) {
  return at === null ? <>{UNKNOWN}</> : <time dateTime={at} title={formatUtc(at)}>{isZoned ? formatZoned(at, digits) : formatTime(at, digits)}</time>
}

/** How long ago something was. */
export function Ago ({ at }: { at: string | null }) {
  return <span title={formatUtc(at)}>{formatAgo(at, Date.now())}</span>
}

/** Whether something is on: by a word and a colour. */
export function OnOff ({ isOn, children = isOn ? 'on' : 'off' }: { isOn: boolean, children?: ComponentChildren }) {
  return <span class={isOn ? 'tag on' : 'tag off'}>{children}</span>
}

/** An on/off switch. @param props.of  Name of the switched object. */
export function Switch ({ of, isOn, onPress }: { of: string, isOn: boolean, onPress: () => void }) {
  return (
    <button type='button' role='switch' aria-checked={isOn} class='switch' onClick={onPress}>
      <span class='hidden'>{of} is </span>{isOn ? 'on' : 'off'}
    </button>
  )
}

interface FormProps { class?: string, onSubmit: () => Promise<void> | void, children: ComponentChildren }

/** A form that is sent by the code of its page. */
export function Form ({ class: style, onSubmit, children }: FormProps) {
  return <form class={style} onSubmit={(event) => { event.preventDefault(); void onSubmit() }}>{children}</form>
}

/** A dialog over the page: Escape closes it, and the focus returns to where it was. It opens over no login. */
export function Dialog (
  { title, onClose, children, isWide = false }: { title: string, onClose: () => void, children: ComponentChildren, isWide?: boolean }
) {
  const dialog = useRef<HTMLDialogElement>(null)
  const isCovered = loginAwaited.value !== undefined
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null
    // As long as the dialog is there, nothing behind it takes the focus. What led here may be gone by then, such as a row.
    return () => queueMicrotask(() => returnFocus(before))
  }, [])
  useLayoutEffect(() => { if (!isCovered && dialog.current?.open === false) dialog.current.showModal() }, [isCovered])
  return (
    <dialog ref={dialog} class={isWide ? 'wide' : ''} aria-labelledby='dialog-title' onClose={onClose}>
      <h2 id='dialog-title'>{title}</h2>
      {children}
    </dialog>
  )
}

/** A line over equal intervals, as a picture with a text for those who do not see it. */
export function Sparkline ({ values, label }: { values: readonly number[], label: string }) {
  const [width, height] = [96, 20]
  const most = Math.max(1, ...values)
  const bar = width / values.length
  return (
    <svg class='spark' role='img' aria-label={label} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      {values.map((value, index) => {
        const tall = value === 0 ? 0 : Math.max(1.5, value / most * height)
        return <rect key={index} x={index * bar} y={height - tall} width={Math.max(1, bar - 1)} height={tall} />
      })}
    </svg>
  )
}
