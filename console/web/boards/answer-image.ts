/** An answer as a picture, drawn like those that are sent by mail and to Slack. */
import { drawPicture } from '../../../engines/charts/draw-picture.ts'
import { contentOfAnswer, contentOfResult, type PictureContent } from '../../../engines/charts/picture-content.ts'
import { withDefaults } from '../questions/question-definition.ts'
import { columnsOf, type TileAnswer } from './answer-table.ts'

/** Pixels of the file for each of the drawing, so that it is sharp on paper. */
const SCALE = 2

/** @throws when the browser does not draw it. */
export async function drawPng (answer: TileAnswer, facts: readonly string[]): Promise<Blob> {
  const image = new Image()
  image.src = `data:image/svg+xml,${encodeURIComponent(drawPicture({ title: answer.name, facts }, contentOf(answer)))}`
  await image.decode()
  const canvas = Object.assign(document.createElement('canvas'), { width: image.width * SCALE, height: image.height * SCALE })
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height)
  const file = await new Promise<Blob | null>((resolve) => { canvas.toBlob(resolve) })
  if (file === null) throw new Error('the browser drew no picture')
  return file
}

function contentOf ({ question, result }: TileAnswer): PictureContent {
  if (question === null) return contentOfResult(columnsOf(result), result?.rows ?? [], result?.chart ?? null)
  const definition = withDefaults(question.definition)
  const display = definition.kind === 'trend' ? definition.display ?? 'line' : 'line'
  return contentOfAnswer(question.answer, { question: definition, display, timezone: question.timezone })
}
