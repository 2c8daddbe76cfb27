/** A bug that the project once had, as an edit of today's source, and the test file that has to find it. */
export interface PlantedBug {
  /** The commit that fixed it. */
  commit: string
  /** What a user or operator would have seen. */
  harm: string
  file: string
  /** Stands in the file exactly once; `broken` takes its place. */
  sound: string
  broken: string
  test: string
}

/** Nine are found by `npm test`, the last three by `npm run test:system`. */
export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    commit: 'f00c7364',
    harm: 'updates of persons overtake those in the spool, and the watermark passes spooled events',
    file: 'ingest/spool/spool.ts',
    sound: 'const gone = await this.#reader.advance(last.end)\n      this.#bytes = Math.max(this.#bytes - gone, 0)',
    broken: 'this.#bytes = Math.max(this.#bytes - await this.#reader.advance(last.end), 0)',
    test: 'ingest/spool/spool.test.ts'
  },
  {
    commit: '20beffe5',
    harm: 'API and ingest wait for a connection that a browser only opened ahead, and stop by force',
    file: 'platform/http-server.ts',
    sound: 'for (const socket of open) if (socket.bytesRead === 0) socket.destroy()\n',
    broken: '',
    test: 'platform/http-server.test.ts'
  },
  {
    commit: '60eccf81',
    harm: 'while a view of a user fails, events are stored again under other tokens, and counted twice',
    file: 'pipeline/events/insert/insert-past-views.ts',
    sound: 'if (view === null) throw error\n',
    broken: 'throw error\n',
    test: 'pipeline/events/insert/insert-past-views.test.ts'
  },
  {
    commit: '490dc811',
    harm: 'an event that equals one that ClickHouse refused is left out as its duplicate, and lost',
    file: 'pipeline/events/partition-session.ts',
    sound: 'for (const message of this.#reader.buffer) delete message.deduplicated\n',
    broken: '',
    test: 'pipeline/events/refused-row-search.test.ts'
  },
  {
    commit: '5183434f',
    harm: 'an event whose uuid two others have is taken for a duplicate of a duplicate, and lost',
    file: 'pipeline/events/duplicates/recall-batch.ts',
    sound: 'if (!isUnderstood) addRows(batch.kept, message, { from, isUnderstood })\n',
    broken: '',
    test: 'pipeline/events/duplicates/duplicate-filter.test.ts'
  },
  {
    commit: '40171d73',
    harm: 'with ?projectId=2 a key of one project reads another project',
    file: 'api/http/request-validation.ts',
    sound: 'if (isQuery) for (const name of Object.keys(values)) if (!Object.hasOwn(properties, name)) delete values[name]\n',
    broken: '',
    test: 'api/http/request-validation.test.ts'
  },
  {
    commit: '18c8f1b9',
    harm: 'an import turns the lines after an unclosed quote into one property, and says that all is well',
    file: 'cli/import/read-rows.ts',
    sound: 'hasLines && !hasClosedQuotes(raw, delimiter)',
    broken: 'hasLines && raw === delimiter',
    test: 'cli/import/read-rows.test.ts'
  },
  {
    commit: '97fd00e2',
    harm: 'where clocks change by half an hour, events are in the total of a trend and in no point of it',
    file: 'engines/questions/calendar.ts',
    sound: 'const day = startOfDay(dayAt(instant, timezone), timezone)\n  return instant - (instant - day) % HOUR_MS',
    broken: 'const { minute, second, millisecond } = clockAt(instant, timezone)\n  return instant - (minute * 60 + second) * 1000 - millisecond',
    test: 'api/questions/question-answers.test.ts'
  },
  {
    commit: 'a9f2bc63',
    harm: 'an SDK that evaluates a flag by itself reads a date without a zone otherwise than the server',
    file: 'engines/operators/match-date.ts',
    sound: 'return Number.isNaN(instant) ? null : new Date(instant).toISOString()',
    broken: 'return Number.isNaN(instant) ? null : text',
    test: 'api/flags/endpoints/posthog-node.test.ts'
  },
  {
    commit: 'cda558b7',
    harm: 'an event that came again while its dead letter waited is counted twice after the replay',
    file: 'platform/dead-letters/replay-and-purge.ts',
    sound: "message.set(HEADER.lookUp, '1')\n",
    broken: '',
    test: 'test/events/quarantine-replay.system.test.ts'
  },
  {
    commit: '775b09ca',
    harm: 'the console stores a schema without the property that was just typed',
    file: 'console/web/schemas/schema-fields.tsx',
    sound: 'if (next !== pending) onChange(',
    broken: 'if (next === null) onChange(',
    test: 'test/console/schemas-screen.system.test.ts'
  },
  {
    commit: '6cc110f6',
    harm: 'another spelling of the path reads the metrics of the API from outside',
    file: 'ingest/server/forward-to-api.ts',
    sound: "[FORWARDED]: '1',\n",
    broken: '',
    test: 'test/security/internal-paths.system.test.ts'
  }
]
