/** Lets the browser keep a file. */
export function offerFile (file: Blob, name: string): void {
  const url = URL.createObjectURL(file)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // The browser has begun by then; what it has begun it keeps.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** A name for a file: `Orders-by-day.csv`. */
export function fileName (name: string | undefined, extension: string): string {
  return `${name?.replaceAll(/[^\w-]+/g, '-') ?? 'result'}.${extension}`
}
