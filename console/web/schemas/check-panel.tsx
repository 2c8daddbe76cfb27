import { formatCount, showText } from '../format.ts'
import { linkTo, projectId } from '../router.ts'
import { describePath, describePrediction, describeShare, type EventSchema, KEYWORDS, type Prediction } from './event-schemas.ts'

/** What the draft would have done with stored events. */
export function SchemaFound ({ prediction, definition: { mode } }: { prediction: Prediction, definition: EventSchema }) {
  const { events, failed, failures, libs } = prediction
  return (
    <>
      <p class={`verdict ${failed === 0 ? '' : 'waiting'}`}><strong>{describePrediction(prediction, mode)}</strong></p>
      {failures.length > 0 && <Failures prediction={prediction} />}
      {failed > 0 && (
        <div class='scroll' role='region' aria-label='By SDK' tabIndex={0}>
          <table>
            <thead>
              <tr><th scope='col'>SDK</th><th scope='col'>Version</th><th scope='col' class='number'>Events</th><th scope='col' class='number'>Do not meet it</th></tr>
            </thead>
            <tbody>
              {libs.map(({ lib, lib_version: version, events: sent, failed: wrong }) => (
                <tr key={`${lib} ${version}`}>
                  <td class='value'>{lib === '' ? 'not said' : showText(lib, 60)}</td><td>{showText(version, 40)}</td><td class='number'>{formatCount(sent)}</td>
                  <td class='number'>{formatCount(wrong)} ({describeShare(wrong, sent)})</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {failed === 0 && events > 0 && <p class='hint'>Activating it now would change nothing about events like these.</p>}
    </>
  )
}

/** What is wrong, by property, with cases that lead to their receipts. */
function Failures ({ prediction: { events, failures } }: { prediction: Prediction }) {
  return (
    <div class='scroll' role='region' aria-label='By property' tabIndex={0}>
      <table>
        <thead><tr><th scope='col'>Property</th><th scope='col' class='number'>Events</th><th scope='col'>Cases, with their receipts</th></tr></thead>
        <tbody>
          {failures.map(({ path, keyword, events: wrong, samples }) => (
            <tr key={`${path} ${keyword}`}>
              <td class='value'><code>{showText(describePath(path), 120)}</code><div class='hint' title={keyword}>{KEYWORDS[keyword] ?? keyword}</div></td>
              <td class='number'>{formatCount(wrong)} ({describeShare(wrong, events)})</td>
              <td class='wide'>
                {samples.map(({ uuid, value }) => (
                  <div key={uuid}>
                    <a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)} title={uuid}>
                      …{uuid.slice(-8)}<span class='hidden'> receipt of {uuid}</span>
                    </a>{' '}
                    {value === '' ? <span class='hint'>no value</span> : <code>{showText(value, 100)}</code>}
                  </div>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
