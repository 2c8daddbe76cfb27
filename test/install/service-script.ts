/**
 * Runs the program of a unit where systemd is not PID 1: with its user, its folders and its settings, which a shell
 * reads. What else the unit says is only read, by systemd-analyze.
 */

/** @param instance  Of a template unit: what stands for `%i`. */
export function serviceScript (unit: string, instance = ''): string {
  const one = (name: string): string => new RegExp(`^${name}=-?(.*)$`, 'm').exec(unit)?.[1]?.replaceAll('%i', instance) ?? ''
  const [user, group] = [one('User'), one('Group')]
  const state = `/var/lib/${one('StateDirectory')}`
  const folders = one('CacheDirectory') === '' ? [state] : [state, `/var/cache/${one('CacheDirectory')}`]
  return `set -ae
    ${one('Environment')}
    . ${one('EnvironmentFile')}
    install --directory --owner=${user} --group=${group} --mode=700 ${folders.join(' ')}
    umask ${one('UMask')}
    cd ${state}
    exec setpriv --reuid=${user} --regid=${group} --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all ${one('ExecStart')}`
}
