// Views whose code is loaded when they are opened for the first time.

import type { FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { __ } from '../../i18n/translate';

/** A component that appears once its code is loaded. */
export function lazily<Props extends object>(load: () => Promise<FunctionComponent<Props>>): FunctionComponent<Props> {
  let loaded: FunctionComponent<Props> | null = null;
  return function Lazy(props: Props) {
    const [problem, setProblem] = useState('');
    const [, setLoaded] = useState(loaded !== null);
    useEffect(() => {
      if (!loaded) {
        load().then(
          component => {
            loaded = component;
            setLoaded(true);
          },
          (error: unknown) => setProblem(__('This view could not be loaded; reload the page. (%1)', String(error)))
        );
      }
    }, []);
    const View = loaded;
    return View ? <View {...props} /> : <p class="cm-loading">{problem || __('Loading …')}</p>;
  };
}
